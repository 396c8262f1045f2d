"""A run that is killed before any step of a mirror leaves the version before or the one after; the next one ends it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dynq_cli.session.run import run
from dynq_cli.storage.state import open
from tests.conftest import ROOT
from tests.mirrors.targets import PostgresTarget, Rows, Target, comparable
from tests.mirrors.test_mirrors import SMALL, small
from tests.seeds import FUZZ

FIRST = pa.table({"x": [1, 1, 2, 3], "s": ["a", "a", None, "c"]})
SECOND = pa.table(
    {"x": [1, 3, 4, 2], "s": ["a", "c", "d", None], "_change_type": ["delete", "delete", "insert", "insert"]}
)


class Killer:
    """Runs in processes that are killed; see `killed`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mirrors.killed"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder: Path, *what: object) -> str:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("\t".join(map(str, (folder, *what))) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    made = Killer()
    yield made
    made.end()


def rows_of_state() -> Rows:
    with open("state") as state:
        return comparable(row.values() for batch in state.enum() for row in batch.to_pylist())


@pytest.mark.parametrize("step", ["load", "change"])
def test_a_kill_before_any_step_leaves_before_or_after(
    target: Target, step: str, killer: Killer, tmp_path: Path
) -> None:
    if step == "load":
        Path("inbox").mkdir()
        Path("spec.yaml").write_text(SMALL.format(output=target.output("m")), "utf-8")
        from dynq_cli.session.apply_logs import make

        make("spec.yaml", "state").close()
        with open("state") as state:
            state.apply({"R": FIRST})
        before = None
    else:
        small(target)
        before = target.rows("m")
        with open("state") as state:
            state.apply({"R": SECOND.slice(1)})
    after = rows_of_state()
    places = [name for name in ("state", "mirrors.duckdb", "tables") if (tmp_path / name).exists()]
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in places:
        (shutil.copytree if (tmp_path / name).is_dir() else shutil.copy2)(tmp_path / name, kept / name)
    back = _Back(target, kept, tmp_path)
    steps = int(killer.run(tmp_path, 0))
    assert steps > 20 and target.rows("m") == after
    random = Random(7)
    many = min(steps, max(3, int(3 * FUZZ)))
    faults: list[tuple[object, ...]] = [(at,) for at in sorted(random.sample(range(1, steps + 1), many))]
    faults += [("after", random.uniform(1, 120)) for _ in range(max(1, int(FUZZ)))]
    for fault in faults:
        back.take()
        ended = killer.run(tmp_path, *fault)
        # How many calls the last steps take is not always the same.
        assert ended == "killed" or fault[0] == "after" or fault[0] > 0.8 * steps, (fault, ended)  # type: ignore[operator]
        held = target.rows("m") if back.is_there("m") else None
        assert held in (before, after), (fault, held)
        run("state", "inbox")
        assert target.rows("m") == after, fault


class _Back:
    """Takes the state and the mirror back to what they were."""

    def __init__(self, target: Target, kept: Path, folder: Path) -> None:
        self._target, self._kept, self._folder = target, kept, folder
        if isinstance(target, PostgresTarget):
            # A database is copied by making it from a template, which nobody may be connected to.
            self._name = target.url.rpartition("/")[2]
            self._on_server(f"CREATE DATABASE {self._name}_kept TEMPLATE {self._name}")

    def take(self) -> None:
        for name in ("state", "mirrors.duckdb", "mirrors.duckdb.wal", "tables"):
            place, was = self._folder / name, self._kept / name
            if place.is_dir():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
            if was.is_dir():
                shutil.copytree(was, place)
            elif was.exists():
                shutil.copy2(was, place)
        if isinstance(self._target, PostgresTarget):
            self._on_server(f"DROP DATABASE {self._name} WITH (FORCE)")
            self._on_server(f"CREATE DATABASE {self._name} TEMPLATE {self._name}_kept")

    def is_there(self, table: str) -> bool:
        try:
            self._target.rows(table)
        except Exception:  # of three libraries
            return False
        return True

    def _on_server(self, sql: str) -> None:
        import psycopg

        assert isinstance(self._target, PostgresTarget)
        with psycopg.connect(self._target.url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
            connection.execute(sql)
