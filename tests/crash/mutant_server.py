"""Damaged files through the real command line, thousands in a process that notices when one of them ends it.

    python -m tests.crash.mutant_server FIRST COUNT [STEP]    the seeds FIRST, FIRST + STEP, …
    python -m tests.crash.mutant_server --keep SEED FOLDER    write the file of a seed, with the spec

Prints a line of JSON per found defect and a last one with counts. A worker, forked from a process that has compiled
everything, runs `dynq apply`, `apply --replace`, `init --load` or `infer` on one file after the other and tells of each
before it begins: if it dies or hangs, the file is known, and another worker goes on with the next. For each:

- exit code 0, or 3 with the file's name in the message; no traceback, no internal error;
- no more memory than `MEMORY` asked for, no more than `GROWTH` taken, no longer than `LONGEST`;
- after a refusal all files of the state are as before, byte for byte;
- after exit code 0 the relation holds the rows of the intact file, or what another reader finds in the damaged one.
"""

from __future__ import annotations

import functools
import gc
import json
import multiprocessing as mp
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.intact_files import SPEC, Rows, before, files, plain
from tests.crash.mutations import Mutant, mutant
from tests.crash.second_reader import SecondReader

MEMORY = 6 << 30  # bytes of addresses on top of what the libraries have; a state reserves two gigabytes
GROWTH = 512 << 20
LONGEST = 20.0  # seconds
_COMMANDS = ("apply", "apply", "apply", "apply", "apply", "replace", "load", "infer")
_SHOWN = 1500


@dataclass(frozen=True)
class Ran:
    """What a command did with a file. `rows` are None unless it took the file and another reader has to be asked."""

    command: str
    code: int
    said: str
    taken: int  # bytes of memory
    wrong: str = ""
    is_other: bool = False
    rows: Rows | None = None


class Commands:
    """Runs commands in this process, on a state of its own that is as new for each file."""

    def __init__(self, folder: Path, template: Path) -> None:
        self._folder = folder
        self._template = template
        self._before = _content(template)
        self._state = folder / "state"
        self._new = folder / "new"
        self._said = (folder / "said").open("w+b")
        shutil.copytree(template, self._state)

    def run(self, file: Path, relation: str, command: str, expected: Rows) -> Ran:
        """Run one command on a file that, were it intact, would make the relation what is expected."""
        spec, state = str(self._folder / "spec.yaml"), str(self._state)
        words = {
            "apply": ["apply", str(file), "--state", state],
            "replace": ["apply", "--replace", f"{relation}={file}", "--state", state],
            "load": ["init", spec, "--state", str(self._new), "--load", f"{relation}={file}"],
            "infer": ["infer", str(file)],
        }[command]
        code, said, taken = self._main(words)
        wrong = _what_is_wrong(code, said, taken, file.name)
        is_other, rows = False, None
        try:
            if code == 0 and command != "infer":
                rows = self._rows(self._new if command == "load" else self._state, relation)
                is_other = rows != expected
            elif code and self._new.exists():
                wrong = wrong or f"a refused init leaves {sorted(p.name for p in self._new.iterdir())}"
            elif code and (changed := _changed(self._before, _content(self._state))):
                wrong = wrong or f"a refused file changes {changed}"
        finally:
            self._clean(is_changed=code == 0 or bool(wrong))
        return Ran(command, code, said, taken, wrong, is_other, rows if is_other else None)

    def _clean(self, *, is_changed: bool) -> None:
        shutil.rmtree(self._new, ignore_errors=True)
        if is_changed:
            shutil.rmtree(self._state)
            shutil.copytree(self._template, self._state)

    def _main(self, words: Sequence[str]) -> tuple[int, str, int]:
        from dynq_cli.cli.app import main

        self._said.seek(0)
        self._said.truncate()
        out, err = os.dup(1), os.dup(2)
        os.dup2(self._said.fileno(), 1)
        os.dup2(self._said.fileno(), 2)
        Path("/proc/self/clear_refs").write_text("5")  # the most memory that was taken, from now on
        had = _memory("VmRSS")
        try:
            code = main(words)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            code = -1
            sys.stderr.write(traceback.format_exc())
            sys.stderr.flush()
        finally:
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.close(out)
            os.close(err)
        self._said.seek(0)
        return code, self._said.read().decode(errors="replace"), _memory("VmHWM") - had

    def _rows(self, state: Path, relation: str) -> Rows:
        from dynq_cli.storage.state import open as open_state

        found: Rows = Counter()
        with open_state(state) as view:
            for batch in view.enum(f"q_{relation}"):
                columns = batch.columns
                numbers = [_as_numbers(column) for column in columns]
                for *row, many in zip(*(column.to_pylist() for column in numbers), strict=True):
                    found[tuple(map(plain, row))] += many
        return found


def _as_numbers(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pt.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pt.is_time(column.type) or pt.is_timestamp(column.type) else column


def _what_is_wrong(code: int, said: str, taken: int, name: str) -> str:
    if "Traceback" in said or "internal error" in said:
        return "a traceback or an internal error"
    if code not in (0, 3):
        return f"exit code {code}"
    if code == 3 and name not in said:
        return "the message does not name the file"
    if "Cannot allocate" in said or "malloc" in said or "realloc" in said or "MemoryError" in said:
        return "it asked for more memory than there is"
    if taken > GROWTH:
        return f"it took {taken >> 20} MiB of memory"
    return ""


def _memory(name: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) << 10


def _content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _changed(old: dict[str, bytes], new: dict[str, bytes]) -> list[str]:
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def command_of(seed: int, relation: str) -> str:
    """What is done with the file of a seed. Files of changes are applied, or looked at."""
    found = Random(-seed - 1).choice(_COMMANDS)
    return "apply" if relation in ("log", "events") and found != "infer" else found


class Campaign:
    """Seeds one after the other; defects are told as they are found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader = SecondReader()
        (folder / "spec.yaml").write_text(SPEC)
        self._template = folder / "template"
        self._make_template()
        self._warm_up()
        self.counts: Counter[str] = Counter()
        gc.freeze()  # a collection in a worker would copy every page that it looks at

    def close(self) -> None:
        self._reader.__exit__(None, None, None)

    def _make_template(self) -> None:
        from dynq_cli.cli import app

        app.group = functools.cache(app.group)  # typer takes three quarters of a short command to build it
        loads = []
        for relation, rows in before().items():
            path = self._folder / f"{relation}.before.jsonl"
            lines = [json.dumps({**dict(zip("ab", row, strict=True)), "_count": many}) for row, many in rows.items()]
            path.write_text("".join(f"{line}\n" for line in lines))
            loads += ["--load", f"{relation}={path}"] if rows else []
        words = ["init", str(self._folder / "spec.yaml"), "--state", str(self._template), *loads, "--quiet"]
        assert app.main(words) == 0

    def _warm_up(self) -> None:
        """Run all commands on intact files: everything is imported and compiled, and the expectations are right."""
        commands = self._commands("warm")
        for name, intact in files().items():
            path = self._folder / name
            path.write_bytes(intact.data)
            for command in ("apply", "replace", "load", "infer"):
                if command in ("apply", "infer") or intact.relation in ("plain", "wide"):
                    ran = commands.run(path, intact.relation, command, intact.rows)
                    assert ran.code == 0, (name, ran)
                    assert not ran.wrong, (name, ran)
                    assert not ran.is_other, (name, command, ran.rows, intact.rows)
            path.unlink()

    def _commands(self, name: str) -> Commands:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(self._folder / "spec.yaml", folder)
        return Commands(folder, self._template)

    def run(self, seeds: Sequence[int]) -> Iterator[dict[str, object]]:
        """The defects that the files of these seeds show."""
        left = list(seeds)
        while left:
            here, there = mp.Pipe()
            worker = os.fork()
            if not worker:
                here.close()
                self._work(left, there)
            there.close()
            done, told = yield from self._follow(here, worker)
            here.close()
            left = left[done:]
            if told:
                yield told

    def _follow(self, worker: Connection, pid: int):  # type: ignore[no-untyped-def]
        """Defects while a worker lives; how many seeds it did, and the defect that ended it."""
        done, seed = 0, None
        while True:
            why = ""
            if not worker.poll(LONGEST):
                os.kill(pid, signal.SIGKILL)
                why = f"no end within {LONGEST:.0f} seconds"
            try:
                kind, value = worker.recv()
            except EOFError:
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if seed is None:
                    assert status == 0, f"a worker ended with {status} between two files"
                    return done, None
                file = mutant(seed)
                said = (self._folder / "worker/said").read_text(errors="replace")
                found = self._defect(file, "?", why or f"the process ended with {status}", said)
                return done + 1, found
            if kind == "begin":
                seed = value
                continue
            done += 1
            file, seed = mutant(value[0]), None
            defect = self._judge(file, value[1])
            if defect:
                yield defect

    def _judge(self, file: Mutant, ran: Ran) -> dict[str, object] | None:
        self.counts[f"{ran.command}: {'taken' if ran.code == 0 else 'refused'}"] += 1
        self.counts[file.intact.form] += 1
        if ran.wrong:
            return self._defect(file, ran.command, ran.wrong, ran.said)
        if not ran.is_other:
            return None
        path = self._folder / file.intact.name
        path.write_bytes(file.data)
        found = self._reader.read(str(path), file.intact.form, file.intact.relation)
        path.unlink()
        agreeing = [name for name, rows in found.items() if rows == ran.rows]
        self.counts[f"other rows, as {agreeing[0] if agreeing else 'nobody'} reads them"] += 1
        # pyarrow is what dynq reads with: its word counts where the other reader does not know the format's feature.
        if agreeing and (agreeing[0] != "pyarrow" or "not yet implemented" in str(found.get("polars"))):
            return None
        rows = ran.rows or Counter()
        lines = [f"dynq: {_difference(file.intact.rows, rows)}"]
        for name, other in found.items():
            lines.append(f"{name}: {other if isinstance(other, str) else _difference(rows, other)}")
        kind = "rows that only pyarrow reads" if agreeing else "wrong rows"
        return self._defect(file, ran.command, kind, "\n".join(lines))

    def _defect(self, file: Mutant, command: str, wrong: str, said: str) -> dict[str, object]:
        self.counts["defects"] += 1
        return {
            "seed": file.seed,
            "way": file.way,
            "file": file.intact.name,
            "command": command,
            "wrong": wrong,
            "said": said[:_SHOWN],
        }

    def _work(self, seeds: Sequence[int], parent: Connection) -> None:
        try:
            limit = _memory("VmSize") + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            commands = self._commands("worker")
            for seed in seeds:
                parent.send(("begin", seed))
                file = mutant(seed)
                path = self._folder / "worker" / file.intact.name
                path.write_bytes(file.data)
                command = command_of(seed, file.intact.relation)
                ran = commands.run(path, file.intact.relation, command, file.intact.rows)
                path.unlink()
                gc.collect()  # states that were open, with their reserved addresses
                parent.send(("end", (seed, ran)))
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(99)


def _difference(old: Rows, new: Rows) -> str:
    more, less = new - old, old - new
    return f"{more.total()} rows more {list(more)[:2]}, {less.total()} less {list(less)[:2]}"


def main(args: Sequence[str]) -> int:
    """See the module."""
    if args[0] == "--keep":
        file, folder = mutant(int(args[1])), Path(args[2])
        folder.mkdir(exist_ok=True)
        (folder / "spec.yaml").write_text(SPEC)
        (folder / file.intact.name).write_bytes(file.data)
        print(file, command_of(file.seed, file.intact.relation))
        return 0
    first, count, step = (*map(int, args), 1)[:3]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    began = time.monotonic()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # no disk waits for what is never kept
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        campaign = Campaign(Path(scratch))
        for defect in campaign.run(range(first, first + count * step, step)):
            answers.write(json.dumps(defect) + "\n")
        campaign.close()
    counts = {**campaign.counts, "seconds": round(time.monotonic() - began)}
    answers.write(json.dumps({"counts": counts}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
