"""Commands to be disturbed, each with a folder to start from and what may be there afterwards.

strike(runner, scene, prepared, folder, fault)    the command of a scene in a new folder, disturbed
verify(runner, scene, folder, ended)              a version before or after, whole; the next command works;
                                                  outputs are whole, and none is lost or repeated
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.crash.faults import Fault
from tests.crash.history import QUERIES, SPEC, History, Row, Rows
from tests.crash.runner import Ended, Runner, Told

HISTORY = History(seed=5, logs=4)
_BEFORE = 2  # versions that are there when a command is disturbed
_KINDS = ("pairs", "names", "diff")  # of outputs with a version in their name
_AT_VERSION = re.compile(r"it is at version (\d+)")


@dataclass(frozen=True)
class Scene:
    """A command; `shows` has the rows of each version that may be there afterwards: of the last, if all went well.

    `again` is the exit code of the same command after it has worked, `codes` are those of one that works, and `aside`
    says whether it sets logs aside: into a directory beside the inbox, or on another file system.
    """

    name: str
    command: Sequence[str]
    shows: Mapping[int, Rows]
    from_nothing: bool = False
    again: int = 0
    codes: tuple[int, ...] = (0,)
    aside: Literal["", "here", "elsewhere"] = ""

    @property
    def after(self) -> int:
        return max(self.shows)


_LOGS = [f"logs/{number:05d}" for number in range(_BEFORE + 1, len(HISTORY.logs) + 1)]
_SEEN = dict(enumerate(HISTORY.seen))
_SHARED_MEMORY = Path("/dev/shm")  # another file system than that of temporary files, where it is there
ELSEWHERE = _SHARED_MEMORY / f"dynq-crash-{os.getpid()}"
_ASIDE: list[Literal["here", "elsewhere"]] = ["here", "elsewhere"] if _SHARED_MEMORY.is_dir() else ["here"]
# By name they stand before, between and behind the good ones. Spark's parts have one name every day.
_BAD = {
    "00000.bad/R.1.csv": "x,y\nno number,a\n",
    "00003.bad/R/part-0.csv": "x,y\n1000,a\n",
    "00003.bad/S/part-0.csv": "y\na\n",
    "00003.bad/_SUCCESS": "",
    "S.9.csv": "_change_type,y,z\ninsert,a,1\ndelete,not there,1\n",
}
_COPIES = ("backup", "restore")
_SET_ASIDE = ["00000.bad/R.1.csv", "00003.bad", "S.9.csv"]
SCENES = [
    Scene("init", HISTORY.init, {0: _SEEN[0]}, from_nothing=True, again=2),
    Scene("apply", ["apply", *_LOGS], _SEEN),
    Scene("apply --atomic", ["apply", "--atomic", *_LOGS], {_BEFORE: _SEEN[_BEFORE], _BEFORE + 1: HISTORY.seen[-1]}),
    Scene("prune", ["prune"], {_BEFORE: _SEEN[_BEFORE]}),
    Scene("enum", HISTORY.enum, {_BEFORE: _SEEN[_BEFORE]}),
    Scene("diff", HISTORY.diff, {_BEFORE: _SEEN[_BEFORE]}),
    Scene("mark", ["mark", "here"], {_BEFORE: _SEEN[_BEFORE]}),
    Scene("unmark", ["unmark", "read"], {_BEFORE: _SEEN[_BEFORE]}, again=3),
    Scene("alter", ["alter", "more.yaml"], {_BEFORE: _SEEN[_BEFORE], _BEFORE + 1: _SEEN[_BEFORE]}),
    Scene("alter outputs", ["alter", "outputs.yaml"], {_BEFORE: _SEEN[_BEFORE], _BEFORE + 1: _SEEN[_BEFORE]}),
    Scene("backup", ["backup", "copy"], {_BEFORE: _SEEN[_BEFORE]}, again=2),
    Scene("restore", ["restore", ".dynq", "-s", "copy"], {_BEFORE: _SEEN[_BEFORE]}, again=2),
    Scene("run", ["run", "logs"], _SEEN),
    *(
        Scene(f"run --quarantine {where}", ["run", "mixed", "--quarantine", "aside"], _SEEN, codes=(0, 3), aside=where)
        for where in _ASIDE
    ),
]


def prepare(runner: Runner, folder: Path) -> None:
    """The folders that scenes start from: before `init`, and a state with two generations, an index and a mark."""
    for name in ("nothing", "state"):
        (folder / name).mkdir(parents=True)
        HISTORY.write(folder / name)
    HISTORY.put(folder / "state/mixed", HISTORY.logs[_BEFORE:])
    more = (
        SPEC.replace("z: int64?", "z: int64?, w: string?")
        .replace("S(y, z)", "S(y, z, _)")
        .replace("S(y, _)", "S(y, _, _)")
    )
    (folder / "state/more.yaml").write_text(more.replace("outputs:", '  keys: {rule: "keys(x) :- R(x, _)"}\noutputs:'))
    (folder / "state/outputs.yaml").write_text(SPEC.replace("latest.json", "last.json"))
    for bad, text in _BAD.items():
        (folder / "state/mixed" / bad).parent.mkdir(parents=True, exist_ok=True)
        (folder / "state/mixed" / bad).write_text(text)
    applies = [["apply", f"logs/{number:05d}"] for number in range(1, _BEFORE + 1)]
    (folder / "state/empty").mkdir()
    for command in (HISTORY.init, ["mark", "read"], *applies, ["run", "empty"]):
        ended = runner.run(folder / "state", command)
        assert ended.status == 0, ended
    shutil.rmtree(folder / "state/out")  # somebody took them


def is_tried(scene: Scene, at: int, call: str) -> bool:
    """Whether a call is struck. `run` has most calls in common with its scenes that set logs aside: they try a part."""
    return not scene.aside or "DYNQ_CRASH" in os.environ or at % 6 == 0 or "aside" in call or "mixed" in call


def strike(runner: Runner, scene: Scene, prepared: Path, folder: Path, fault: Fault | None = None) -> Ended:
    """Run the command of a scene in a new folder."""
    shutil.copytree(prepared / ("nothing" if scene.from_nothing else "state"), folder)
    if scene.aside == "elsewhere":
        ELSEWHERE.mkdir(exist_ok=True)
        (folder / "aside").symlink_to(tempfile.mkdtemp(dir=ELSEWHERE))
    return runner.run(folder, scene.command, fault=fault)


def verify(runner: Runner, scene: Scene, folder: Path, ended: Ended) -> None:
    """See the module; `ended` is the disturbed run."""
    is_there = (folder / ".dynq/CURRENT").exists()
    assert is_there or scene.from_nothing
    consumer = Consumer(folder, scene.shows, _SEEN[_BEFORE])
    consumer.take()
    is_done = is_there and _is_done(runner, scene, folder)
    look = HISTORY.inspect if is_there else ()
    told = iter(runner.run(folder, *look, scene.command, *HISTORY.inspect, ["prune"]).told)
    if is_there:
        version, rows = _seen(told)
        assert rows == scene.shows[version]
        if ended.status == 0:
            assert version == scene.after
        for said in _AT_VERSION.findall(ended.first.err):
            assert version == int(said)
    again = next(told)
    assert again.code in ([scene.again] if is_done and scene.again else scene.codes), again
    assert _seen(told) == (scene.after, scene.shows[scene.after])
    _ok(next(told))
    consumer.take()
    left = [] if scene.from_nothing else left_behind(folder)
    assert not left, f"what the disturbed command left is still there: {left}"
    if scene.aside:
        _check_set_aside(folder)
    if scene.name in _COPIES:
        looks = [[*command, "-s", "copy"] for command in HISTORY.inspect]
        assert _seen(iter(runner.run(folder, *looks).told)) == (_BEFORE, _SEEN[_BEFORE])
    if scene.name.startswith("run"):
        _ok(runner.run(folder, scene.command).first)
        consumer.take()
        consumer.has_all(scene.after)


def _check_set_aside(folder: Path) -> None:
    """Every bad log is in the quarantine, whole, once, with its reason, and no longer in the inbox."""
    aside = folder / "aside"
    found = {str(p.relative_to(aside)): p.read_text() for p in aside.rglob("*") if p.is_file()}
    reasons = {name: json.loads(found.pop(name))["log"] for name in list(found) if name.endswith(".reason.json")}
    assert reasons == {f"{name}.reason.json": f"mixed/{name}" for name in _SET_ASIDE}
    assert found.pop("_QUARANTINE")
    assert found == _BAD
    good = [f"{log.name.partition('.')[0]}/{log.relation}.{log.name}" for log in HISTORY.logs[_BEFORE:]]
    assert sorted(str(p.relative_to(folder / "mixed")) for p in (folder / "mixed").rglob("*") if p.is_file()) == good


def _is_done(runner: Runner, scene: Scene, folder: Path) -> bool:
    """Whether the disturbed command did what it was asked to; a diff whose mark has moved is there, whole."""
    marks = json.loads(_ok(runner.run(folder, ["marks", "--json"]).first))
    result = folder / "diff.jsonl"
    if scene.name == "diff":
        if result.exists():
            assert changed(_SEEN[0]["pairs"], result.read_text()) == _SEEN[_BEFORE]["pairs"]
        assert result.exists() or marks["read"] == 0
    if scene.name == "unmark":
        return "read" not in marks
    if scene.name in _COPIES:
        return (folder / "copy").exists()
    return True


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


def rows_of(text: str) -> list[Row]:
    """Rows of JSON lines, sorted."""
    return sorted((tuple(json.loads(line).values()) for line in text.splitlines()), key=repr)


def changed(rows: Sequence[Row], diff: str) -> list[Row]:
    """What rows with their copies become by a diff, whose every change must be possible."""
    copies = Counter({row[:-1]: row[-1] for row in rows})
    for line in diff.splitlines():
        *row, kind, many = json.loads(line).values()
        copies[tuple(row)] += many if kind == "insert" else -many
    assert min(copies.values(), default=0) >= 0
    return sorted(((*row, many) for row, many in copies.items() if many), key=repr)


class Consumer:
    """Takes outputs away, as programs behind an output folder do. Each that can be seen has to be whole.

    The diffs, one after the other, have to lead from the rows at the start to those of the version in their name.
    """

    def __init__(self, folder: Path, shows: Mapping[int, Rows], start: Rows) -> None:
        self._folder = folder
        self._shows = shows
        self._taken: list[str] = []
        self._rows = start["pairs"]

    def take(self) -> None:
        """All that can be seen now."""
        result = self._folder / "pairs.jsonl"
        if result.exists():
            assert rows_of(result.read_text()) in [rows["pairs"] for rows in self._shows.values()]
        found = {path.name: path for path in (self._folder / "out").glob("[!.]*")}
        latest = found.pop("latest.json", None)
        if latest is not None:
            counted = json.loads(latest.read_text())
            assert counted["rows"] == sum(row[-1] for row in self._shows[counted["version"]]["pairs"])
        for name in sorted(found, key=_version_in):
            self._take(name, found[name].read_text(), self._shows[_version_in(name)])
            found[name].unlink()

    def _take(self, name: str, text: str, shows: Rows) -> None:
        assert name not in self._taken, f"{name} came twice"
        self._taken.append(name)
        if name.startswith("pairs"):
            assert rows_of(text) == shows["pairs"]
        elif name.startswith("names"):
            assert text == f"{len(shows['names'])}\n"
        else:
            self._rows = changed(self._rows, text)
            assert self._rows == shows["pairs"]

    def has_all(self, last: int) -> None:
        """Each version that has an output has all, and the last version has them."""
        versions = set(map(_version_in, self._taken))
        assert last in versions
        expected = {f"{kind}-{v}." for v in versions for kind in _KINDS}
        assert {name[: name.index(".") + 1] for name in self._taken} == expected


def _version_in(name: str) -> int:
    return int(name.partition("-")[2].partition(".")[0])


def left_behind(folder: Path) -> list[str]:
    """Files that only a command on its way has."""
    return [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".staged") or ".set-aside." in path.name]


@contextmanager
def named(call: str) -> Iterator[None]:
    """Say at which call it was that something went wrong."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"at `{call}`: {error}") from error
