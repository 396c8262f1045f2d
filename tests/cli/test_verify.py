"""`dynq verify`: a line per query, exit 0 where all agree, exit 12 with the rows where one does not."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from dynq_cli.storage.commit import commit_snapshot
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.plans import read_plans
from dynq_cli.storage.recover import open_latest
from dynq_cli.storage.state import create

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]

SPEC = """\
version: 1
relations:
  people: {columns: {name: string, city: string?, born: date}}
  cities: {columns: {city: string, size: int64}}
queries:
  by_city: {sql: "SELECT p.name, p.city, p.born FROM people p, cities c WHERE p.city = c.city"}
  towns: {rule: "towns(city) :- people(_, city, _), cities(city, _)"}
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    with create(tmp_path / "spec.yaml", tmp_path / ".dynq") as made:
        days = pa.array([10_000, 10_001, 10_002, 10_003], pa.int32()).cast(pa.date32())
        people = pa.table({"name": ["Ada", "Bo", 'C"', "Di"], "city": ["Rome", "Rome", "Bonn", None], "born": days})
        made.apply({"people": people, "cities": pa.table({"city": ["Rome", "Bonn"], "size": [3, 1]})})
    return tmp_path / ".dynq"


def tamper(state: Path) -> None:
    """One more copy of a city in the base table, which the trees do not know of, under right checksums."""
    with writing_to(state):
        manifest = read_manifest(state)
        planned = read_plans(state, manifest)
        _, views = open_latest(state, planned)
        arena, table = views.engine.arena, views.layout.bases["cities"].table
        row = arena.tables[table]
        arena.words[int(row["rows"] + row["mult"])] += 1
        commit_snapshot(state, manifest, views, planned)


def test_results_that_agree_are_a_line_each(dynq: Dynq, state: Path) -> None:
    run = dynq("verify")
    assert (run.returncode, run.stdout, run.stderr) == (0, "by_city: 3 rows agree\ntowns: 2 rows agree\n", "")


def test_one_query_and_another_state_can_be_named(dynq: Dynq, state: Path) -> None:
    moved = state.rename(state.with_name("elsewhere"))
    run = dynq("verify", "-q", "towns", "-s", moved.name)
    assert (run.returncode, run.stdout) == (0, "towns: 2 rows agree\n")
    assert dynq("verify", "-q", "none", "-s", moved.name).returncode == 2
    assert dynq("verify").returncode == 10


def test_json_has_the_counts_of_every_side(dynq: Dynq, state: Path) -> None:
    found = json.loads(dynq("verify", "--json").stdout)
    assert found["agrees"] is True
    assert list(found["queries"]) == ["by_city", "towns"]
    three = {"rows": 3, "distinct": 3}
    assert found["queries"]["by_city"] == {
        "agrees": True,
        "recorded": three,
        "counted": three,
        "enumerated": three,
        "recomputed": three,
        "differing": [],
    }


def test_a_result_that_differs_is_shown_by_its_rows_and_exits_12(dynq: Dynq, state: Path) -> None:
    tamper(state)
    run = dynq("verify")
    assert run.returncode == 12
    assert run.stdout.splitlines() == [
        "by_city: differs: 3 rows recorded; 3 rows counted; 3 rows enumerated; 5 rows (3 distinct) recomputed",
        '  too few: kept 1 time, not 2: {"name":"Ada","city":"Rome","born":"1997-05-19"}',
        '  too few: kept 1 time, not 2: {"name":"Bo","city":"Rome","born":"1997-05-20"}',
        "towns: 2 rows agree",
    ]
    assert run.stderr.startswith(
        "dynq: what .dynq keeps of by_city is not what its base tables give; do not trust it\n"
    )
    assert "hint: make a new state" in run.stderr


@pytest.fixture
def unknown(tmp_path: Path, state: Path) -> Path:
    """A state with a sum in the middle that is small, and too large for DuckDB on the way."""
    shutil.rmtree(state)
    spec = SPEC.replace("queries:\n", '  large: {columns: {w: "decimal(38,0)"}}\nqueries:\n')
    spec = spec.replace("  towns:", '  total: {sql: "SELECT SUM(w) AS total FROM large"}\n  towns:')
    (tmp_path / "spec.yaml").write_text(spec, "utf-8")
    with create(tmp_path / "spec.yaml", state) as made:
        people = pa.table({"name": ["Ada"], "city": ["Rome"], "born": pa.array([10_000], pa.int32()).cast(pa.date32())})
        made.apply({"people": people, "cities": pa.table({"city": ["Rome"], "size": [3]})})
        # In an order in which every sum is small; the third row has the id of the one that went.
        a, b, small = 9 * 10**37, -9 * 10**37, 1
        for word, number in (("insert", a), ("insert", small), ("insert", b), ("delete", small), ("insert", a + 1)):
            numbers = pa.array([Decimal(number)]).cast(pa.decimal128(38, 0))
            made.apply({"large": pa.table({"w": numbers, "_change_type": [word]})})
    return state


def test_a_query_that_cannot_be_recomputed_is_named_and_the_others_are_compared(dynq: Dynq, unknown: Path) -> None:
    run = dynq("verify")
    assert run.returncode == 1
    first, second, third = run.stdout.splitlines()
    assert (first, third) == ("by_city: 1 row agrees", "towns: 1 row agrees")
    assert second.startswith("total: not recomputed: Out of Range Error: Overflow")
    assert run.stderr == "dynq: DuckDB cannot recompute total; the others agree\n"
    found = json.loads(dynq("verify", "--json").stdout)
    assert (found["agrees"], found["queries"]["total"]["agrees"]) == (False, None)
    assert "Overflow" in found["queries"]["total"]["error"] and found["queries"]["towns"]["agrees"] is True


def test_a_result_that_differs_counts_more_than_one_that_cannot_be_recomputed(dynq: Dynq, unknown: Path) -> None:
    tamper(unknown)
    run = dynq("verify")
    assert run.returncode == 12
    assert "by_city: differs" in run.stdout and "total: not recomputed" in run.stdout
    alone = dynq("verify", "-q", "total")
    assert (alone.returncode, alone.stderr) == (1, "dynq: DuckDB cannot recompute total\n")


def test_json_of_a_result_that_differs_has_the_rows(dynq: Dynq, state: Path) -> None:
    tamper(state)
    run = dynq("verify", "--json", "-q", "by_city")
    assert run.returncode == 12
    found = json.loads(run.stdout)
    assert found["agrees"] is False
    assert found["queries"]["by_city"]["differing"][0] == {
        "row": {"name": "Ada", "city": "Rome", "born": "1997-05-19"},
        "kept": 1,
        "recomputed": 2,
    }
