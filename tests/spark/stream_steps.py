"""A batch of a stream, its process killed before every call that changes a file, then taken again: a program.

    python -m tests.spark.stream_steps FOLDER

What Spark does around a batch is done here in its order: `offsets/n`, the batch, `commits/n`. Each kill is of a forked
process in a copy of the folder. Prints the calls; an assertion fails if a change is lost or repeated.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import sys
from pathlib import Path

from tests.crash import faults

BATCHES = [[0], [1, 2], [3]]
STRUCK = 1  # the batch in which processes are killed
_TRACE = 1 << 20


def drive(folder: Path, until: int) -> None:
    """Take the batches that are not committed, up to one."""
    from dynq_cli.session.apply_logs import apply_logs
    from dynq_cli.spark.microbatches import MicroBatch, MicroBatches
    from dynq_cli.storage.state import open as open_state
    from tests.spark.stream_files import name

    def apply(batch: str) -> None:
        with open_state(folder / "state") as view:
            apply_logs(view, [batch])

    batches = MicroBatches(folder / "state", "stream:in", "work", folder / "work/batch", apply, os.link)
    for number, numbers in enumerate(BATCHES[: until + 1]):
        if not (folder / f"work/commits-{number}").exists():
            files = {name(i): str(folder / "in" / name(i)) for i in numbers}
            (folder / f"work/offsets-{number}").write_text(json.dumps(list(files)))
            batches.take(MicroBatch.of("checkpoint", number, files), files)
            (folder / f"work/commits-{number}").touch()


def forked(folder: Path, fault: faults.Fault | None = None) -> tuple[int, list[str]]:
    """Drive to the struck batch in a process of its own; how it ended, and its calls."""
    with mmap.mmap(-1, _TRACE) as trace:
        child = os.fork()
        if not child:
            try:
                faults.begin(str(folder), fault, trace)
                drive(folder, STRUCK)
                os._exit(0)
            finally:
                os._exit(99)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, faults.calls_in(trace)


def strike(prepared: Path, folder: Path, at: int, call: str) -> None:
    from dynq_cli.storage.manifest import read_manifest
    from tests.spark.stream_files import files_held

    shutil.copytree(prepared, folder)
    assert forked(folder, faults.Fault("kill", at))[0] == -9, call
    assert (files_held(folder / "state"), read_manifest(folder / "state").version) in ((1, 1), (3, 2)), call
    drive(folder, len(BATCHES))
    assert (files_held(folder / "state"), read_manifest(folder / "state").version) == (4, 3), call
    assert not (folder / "work/batch").exists(), call
    shutil.rmtree(folder)


def main(folder: Path) -> None:
    faults.install()
    from tests.spark.snapshots import new_state
    from tests.spark.stream_files import SPEC, put_files

    prepared = folder / "prepared"
    new_state(prepared, SPEC)
    put_files(prepared / "in", range(4))
    (prepared / "work").mkdir()
    drive(prepared, STRUCK - 1)
    shutil.copytree(prepared, folder / "undisturbed")
    status, calls = forked(folder / "undisturbed")
    assert status == 0
    struck = [(at, call) for at, call in enumerate(calls, start=1) if not call.startswith(("open", "mmap"))]
    for at, call in struck:
        strike(prepared, folder / str(at), at, call)
    print(json.dumps([call for _, call in struck]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
