"""A process that has imported and compiled everything, and forks for each run of a command: a tenth of a second each.

It reads jobs from stdin, a line of JSON each, and answers each with a line: see `runner`. The last thing that commands
share is what this process did to warm up; what they do to memory is gone with them.
"""

from __future__ import annotations

import functools
import gc
import json
import mmap
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from tests.crash import faults

_TRACE = 1 << 20
_LONGEST = 100.0  # seconds


def serve() -> None:
    """Answer until stdin ends."""
    faults.install()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _warm_up()
    gc.freeze()  # a collection in a child would copy every page that it looks at
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    trace = mmap.mmap(-1, _TRACE)
    with ExitStack() as files:
        said = [[files.enter_context(tempfile.TemporaryFile()) for _ in "oe"] for _ in job["commands"]]
        codes = files.enter_context(tempfile.TemporaryFile("w+"))
        child = os.fork()
        if not child:
            try:
                _run(job, trace, said, codes)
            finally:
                os._exit(99)  # nothing of this process may go on in the child
        status = _wait(child, job["kill_after"])
        codes.seek(0)
        ended = [int(code) for code in codes.read().split()]
        told = [[_content(file) for file in both] for both in said]
    with trace:
        return {"status": status, "codes": ended, "told": told, "calls": faults.calls_in(trace)}


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _wait(child: int, kill_after: float | None) -> int:
    """The exit status; negative for a signal."""
    until = time.monotonic() + (_LONGEST if kill_after is None else kill_after)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL if kill_after is not None else signal.SIGABRT)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        time.sleep(0.0005)


def _run(job: dict[str, Any], trace: mmap.mmap, said: list[Any], codes: Any) -> None:
    from dynq_cli.cli.app import main
    from dynq_cli.storage import commit, ledger

    os.chdir(job["cwd"])
    # Files that long-lived states get, in small ones: snapshots whenever a process ends, indexes after a few versions.
    commit.DUE_SECONDS = -1.0
    ledger.TAIL_KEYS = 8
    faults.begin(job["cwd"], faults.Fault(*job["fault"]) if job["fault"] else None, trace)
    code = 0
    for command, (out, err) in zip(job["commands"], said, strict=True):
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        code = main(command)
        sys.stdout.flush()
        sys.stderr.flush()
        codes.write(f"{code}\n")
        codes.flush()
    os._exit(code)


def _warm_up() -> None:
    """Run every command once, so that what it imports and compiles is there."""
    import pyarrow as pa

    from dynq_cli.cli import app
    from tests.crash.history import History

    app.group = functools.cache(app.group)  # typer takes three quarters of a short command to build it
    pa.set_cpu_count(1)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        made = History(0, 4)
        made.write(Path())
        marks = (["mark", "read"], ["apply", "logs"], made.diff, ["marks", "--json"], ["unmark", "read"])
        for command in (made.init, *marks, ["run", "logs"], *made.inspect, ["prune"], made.enum):
            app.main([*command, "--quiet"])
        os.chdir(before)


if __name__ == "__main__":
    serve()
