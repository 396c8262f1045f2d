"""Commands to be disturbed, each with a folder to start from and what may be there afterwards.

    strike(runner, scene, prepared, folder, fault)    the command of a scene in a new folder, disturbed
    verify(runner, scene, folder, ended)              a version before or after, whole; the next command works;
                                                      outputs are whole, and none is lost or repeated
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crash.faults import Fault
from tests.crash.history import QUERIES, History, Rows
from tests.crash.runner import Ended, Runner, Told

HISTORY = History(seed=5, logs=4)
_BEFORE = 2  # versions that are there when a command is disturbed
_AT_VERSION = re.compile(r"it is at version (\d+)")


@dataclass(frozen=True)
class Scene:
    """A command; `shows` has the rows of each version that may be there afterwards: of the last, if all went well.

    `again` is the exit code of the same command after it has worked.
    """

    name: str
    command: Sequence[str]
    shows: Mapping[int, Rows]
    from_nothing: bool = False
    again: int = 0

    @property
    def after(self) -> int:
        return max(self.shows)


_LOGS = [f"logs/{number:05d}" for number in range(_BEFORE + 1, len(HISTORY.logs) + 1)]
_SEEN = dict(enumerate(HISTORY.seen))
SCENES = [
    Scene("init", HISTORY.init, {0: _SEEN[0]}, from_nothing=True, again=2),
    Scene("apply", ["apply", *_LOGS], _SEEN),
    Scene("apply --atomic", ["apply", "--atomic", *_LOGS], {_BEFORE: _SEEN[_BEFORE], _BEFORE + 1: HISTORY.seen[-1]}),
    Scene("prune", ["prune"], {_BEFORE: _SEEN[_BEFORE]}),
    Scene("enum", HISTORY.enum, {_BEFORE: _SEEN[_BEFORE]}),
    Scene("run", ["run", "logs"], _SEEN),
]


def prepare(runner: Runner, folder: Path) -> None:
    """The folders that scenes start from: before `init`, and a state with two generations and an index."""
    for name in ("nothing", "state"):
        (folder / name).mkdir(parents=True)
        HISTORY.write(folder / name)
    for command in (HISTORY.init, *(["apply", f"logs/{number:05d}"] for number in range(1, _BEFORE + 1))):
        ended = runner.run(folder / "state", command)
        assert ended.status == 0, ended


def strike(runner: Runner, scene: Scene, prepared: Path, folder: Path, fault: Fault | None = None) -> Ended:
    """Run the command of a scene in a new folder."""
    shutil.copytree(prepared / ("nothing" if scene.from_nothing else "state"), folder)
    return runner.run(folder, scene.command, fault=fault)


def verify(runner: Runner, scene: Scene, folder: Path, ended: Ended) -> None:
    """See the module; `ended` is the disturbed run."""
    is_there = (folder / ".dynq/CURRENT").exists()
    assert is_there or scene.from_nothing
    taken = take_outputs(folder, scene.shows)
    look = HISTORY.inspect if is_there else []
    told = iter(runner.run(folder, *look, scene.command, *HISTORY.inspect, ["prune"]).told)
    if is_there:
        version, rows = _seen(told)
        assert rows == scene.shows[version]
        if ended.status == 0:
            assert version == scene.after
        for said in _AT_VERSION.findall(ended.first.err):
            assert version == int(said)
    again = next(told)
    assert again.code == (scene.again if is_there else 0), again
    assert _seen(told) == (scene.after, scene.shows[scene.after])
    _ok(next(told))
    taken += take_outputs(folder, scene.shows)
    left = left_behind(folder)
    assert not left, f"what the disturbed command left is still there: {left}"
    if scene.name == "run":
        _ok(runner.run(folder, scene.command).first)
        taken += take_outputs(folder, scene.shows)
        once_each(taken, scene.after)


def seen(runner: Runner, folder: Path) -> tuple[int, Rows]:
    """The version in force with its rows, all as the commands tell; `check` finds nothing."""
    return _seen(iter(runner.run(folder, *HISTORY.inspect).told))


def _seen(told: Iterator[Told]) -> tuple[int, Rows]:
    _ok(next(told))
    counts = {query: json.loads(_ok(next(told))) for query in QUERIES}
    rows = {query: rows_of(_ok(next(told))) for query in QUERIES}
    assert len({count["version"] for count in counts.values()}) == 1
    for query in QUERIES:
        assert counts[query]["distinct"] == len(rows[query])
    assert counts["pairs"]["rows"] == sum(row[-1] for row in rows["pairs"])
    return counts["pairs"]["version"], rows


def _ok(told: Told) -> str:
    assert told.code == 0, told
    return told.out


def rows_of(text: str) -> list[tuple[object, ...]]:
    """Rows of JSON lines, sorted."""
    return sorted((tuple(json.loads(line).values()) for line in text.splitlines()), key=repr)


def take_outputs(folder: Path, shows: Mapping[int, Rows]) -> list[str]:
    """Take away, as programs behind an output folder do, what can be seen; each is whole. Names with a version."""
    result = folder / "pairs.jsonl"
    if result.exists():
        assert rows_of(result.read_text()) in [rows["pairs"] for rows in shows.values()]
    taken = []
    for path in (folder / "out").glob("[!.]*"):
        if path.name == "latest.json":
            latest = json.loads(path.read_text())
            assert latest["rows"] == sum(row[-1] for row in shows[latest["version"]]["pairs"])
            continue
        version = int(path.stem.partition("-")[2])
        if path.name.startswith("pairs"):
            assert rows_of(path.read_text()) == shows[version]["pairs"]
        else:
            assert path.read_text() == f"{len(shows[version]['names'])}\n"
        taken.append(path.name)
        path.unlink()
    return taken


def once_each(taken: Sequence[str], last: int) -> None:
    """No output came twice, each version that has one has all, and the last version has them."""
    assert len(set(taken)) == len(taken), f"an output came twice: {sorted(taken)}"
    versions = {int(name.partition("-")[2].partition(".")[0]) for name in taken}
    assert last in versions
    assert set(taken) == {name for v in versions for name in (f"pairs-{v}.jsonl", f"names-{v}.txt")}


def left_behind(folder: Path) -> list[str]:
    """Files that only a command on its way has."""
    return [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".staged")]


@contextmanager
def named(call: str) -> Iterator[None]:
    """Say at which call it was that something went wrong."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"at `{call}`: {error}") from error
