"""`explain --data`: what is said beforehand is near what `status` says after a real `dynq apply`, and what it took."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.cli.app import main
from dynq_cli.engine.table_sizes import sizes_of
from dynq_cli.engine.views import Views
from dynq_cli.session import sample, table_counts
from dynq_cli.session.estimate import FACTOR, Estimate, estimate_spec, estimate_state
from dynq_cli.session.table_counts import extrapolated
from dynq_cli.spec.model import Column
from dynq_cli.storage.facts import StateFacts, facts_of
from dynq_cli.storage.plans import plan_spec
from dynq_cli.values.convert import arrow_type
from tests.conftest import ROOT

# Tables of so few bytes have more free room than rows.
SMALL = 1_000_000
ROWS = 60_000

RELATIONS = """
version: 1
relations:
  flights:
    columns: {id: int64, carrier: string, tailnum: string?, origin: string, dest: string, dep: int64, delay: float64}
    key: [id]
  planes: {columns: {tailnum: string, year: int64, maker: string}, key: [tailnum]}
  airports: {columns: {code: string, name: string}, key: [code]}
  weather: {columns: {origin: string, t: int64, temp: float64}}
queries:
"""
JOIN = "SELECT f.id, f.origin, p.maker FROM flights f JOIN planes p ON f.tailnum = p.tailnum"
GROUPS = (
    "SELECT p.maker, f.dest, count(*) AS n, min(f.delay) AS best FROM flights f, planes p "
    "WHERE f.tailnum = p.tailnum GROUP BY p.maker, f.dest"
)
SHAPES = {
    "one join and one aggregate": {"joined": JOIN, "makers": GROUPS},
    "six queries": {
        "by_carrier": "SELECT carrier, count(*) AS n, avg(delay) AS d, max(dep) AS last FROM flights GROUP BY carrier",
        "joined": JOIN,
        "makers": GROUPS,
        "routes": "SELECT DISTINCT f.origin, f.dest FROM flights f WHERE f.delay > 10",
        "names": "SELECT f.id, o.name AS a, d.name AS b FROM flights f, airports o, airports d "
        "WHERE f.origin = o.code AND f.dest = d.code AND f.dep > 500000",
        "unseen": "SELECT code, name FROM airports a WHERE NOT EXISTS (SELECT 1 FROM flights f WHERE f.dest = a.code)",
    },
    "comparison": {
        "before": "SELECT f.id, f.dep, f.origin, w.t, w.temp FROM flights f, weather w "
        "WHERE f.origin = w.origin AND w.t <= f.dep"
    },
    "ordered": {
        "by_dep": "SELECT dep, id, carrier FROM flights ORDER BY dep DESC, id",
        "by_name": "SELECT f.tailnum, p.maker, f.dep, f.id FROM flights f JOIN planes p ON f.tailnum = p.tailnum "
        "ORDER BY f.tailnum, f.dep",
    },
    "groups that are many": {
        "per_plane": "SELECT tailnum, dest, count(*) AS n, sum(dep) AS s, max(carrier) AS m FROM flights "
        "GROUP BY tailnum, dest"
    },
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    random = np.random.default_rng(7)

    def texts(word: str, several: int, many: int = ROWS) -> pa.Array:
        return pa.array([f"{word}{x:05d}" for x in random.integers(0, several, many)])

    tables = {
        "flights": {
            "id": np.arange(ROWS),
            "carrier": texts("carrier ", 16),
            "tailnum": texts("N", 5000),
            "origin": texts("A", 300),
            "dest": texts("A", 290),
            "dep": random.integers(0, 10**6, ROWS),
            "delay": random.normal(0, 30, ROWS),
        },
        "planes": {
            "tailnum": [f"N{x:05d}" for x in range(5000)],
            "year": random.integers(1980, 2020, 5000),
            "maker": texts("maker ", 30, 5000),
        },
        "airports": {"code": [f"A{x:05d}" for x in range(300)], "name": [f"Airport {x}" for x in range(300)]},
        "weather": {
            "origin": texts("A", 300, 4000),
            "t": random.integers(0, 10**6, 4000),
            "temp": random.normal(15, 10, 4000),
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return [str(folder / f"{name}.parquet") for name in tables]


def _spec(folder: Path, queries: dict[str, str]) -> Path:
    path = folder / "spec.yaml"
    path.write_text(RELATIONS + "".join(f"  {name}: {{sql: {json.dumps(sql)}}}\n" for name, sql in queries.items()))
    return path


# The highest memory of a process that starts as the command does, by itself: what the system says of a child may be
# that of the process it was made by.
_APPLY = """
import re, sys
from dynq_cli.cli.process import begin_small
begin_small(sys.argv[1:])
from dynq_cli.cli.app import main
assert main(sys.argv[1:]) == 0
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def _applied(state: Path, files: list[str]) -> int:
    """Apply in a process of its own; the most bytes that it had."""
    words = [sys.executable, "-c", _APPLY, "apply", "-s", str(state), *files]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout) * 1024


def _pairs(found: Estimate, facts: StateFacts, peak: int) -> Iterator[tuple[str, int, int]]:
    tables = facts.tables
    assert tables is not None
    for name, relation in tables.relations.items():
        yield f"rows of {name}", found.tables.relations[name].rows, relation.rows
        yield f"bytes of {name}", found.tables.relations[name].length, relation.length
    for name, query in tables.queries.items():
        yield f"bytes of {name}", found.tables.queries[name].length, query.length
        yield f"stored rows of {name}", found.tables.queries[name].stored, query.stored
    yield "shared", found.tables.shared, tables.shared
    yield "dictionaries", found.tables.dictionaries, tables.dictionaries
    yield "snapshot", found.disk.snapshot, facts.sizes.snapshot
    yield "logs", found.disk.wal + found.disk.history, facts.sizes.wal + facts.sizes.history
    yield "total", found.disk.total, facts.sizes.total
    yield "memory", found.memory, peak


def _far(found: Estimate, facts: StateFacts, peak: int) -> list[tuple[str, int, int]]:
    """What is said that is not within the factor."""
    return [
        (name, said, real)
        for name, said, real in _pairs(found, facts, peak)
        if not real / FACTOR <= said <= real * FACTOR and (abs(said - real) > SMALL or name.startswith("rows"))
    ]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let counting take its time on a busy machine: what it leaves out is rough."""
    monkeypatch.setattr(table_counts, "MOST_SECONDS", 600.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_said_beforehand_is_near_what_is_there_afterwards(shape: str, tmp_path: Path, files: list[str]) -> None:
    spec, state = _spec(tmp_path, SHAPES[shape]), tmp_path / "state"
    found = estimate_spec(spec, files)
    assert main(["init", str(spec), "-s", str(state)]) == 0
    peak = _applied(state, files)
    assert not _far(found, facts_of(state), peak)
    assert found.rough == ()
    assert set(found.kept.values()) == {1.0}


@pytest.mark.parametrize("shape", ["one join and one aggregate", "ordered"])
def test_a_part_of_the_rows_says_nearly_the_same(
    shape: str, tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "MOST_KEPT", 5000)
    monkeypatch.setattr(sample, "MOST_READ", 40_000)
    spec, state = _spec(tmp_path, SHAPES[shape]), tmp_path / "state"
    found = estimate_spec(spec, files)
    assert found.kept["flights"] < 0.2
    assert main(["init", str(spec), "-s", str(state)]) == 0
    peak = _applied(state, files)
    assert not _far(found, facts_of(state), peak)


def test_a_state_is_counted_with_the_rows_it_has(tmp_path: Path, files: list[str]) -> None:
    spec, state = _spec(tmp_path, SHAPES["one join and one aggregate"]), tmp_path / "state"
    assert main(["init", str(spec), "-s", str(state)]) == 0
    _applied(state, files)
    flights = pq.read_table(files[0])
    more, more_changes = 20_000, tmp_path / "flights.more.parquet"
    ids = pa.array(np.arange(ROWS, ROWS + more))
    kinds = pa.array(["insert"] * more)
    new = flights.slice(0, more).set_column(0, "id", ids).append_column("_change_type", kinds)
    old = flights.slice(0, 10_000).append_column("_change_type", pa.array(["delete"] * 10_000))
    pq.write_table(pa.concat_tables([new, old]), more_changes)
    warnings: list[str] = []
    found = estimate_state(state, [files[0], str(more_changes)], warnings.append)
    assert [w for w in warnings if "applied before" in w] == [f"{files[0]} was applied before and is left out"]
    assert found.tables.relations["flights"].rows == ROWS + 10_000
    peak = _applied(state, [str(more_changes)])
    assert not _far(found, facts_of(state), peak)


def test_what_is_largest_and_what_would_make_it_smaller_are_named(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = _spec(tmp_path, SHAPES["one join and one aggregate"])
    assert main(["explain", str(spec), "--data", *files]) == 0
    said = capsys.readouterr().out
    assert "apply of these files, estimated (from all rows):" in said
    assert "leave carrier, dep out of flights in the spec, no query uses them: saves" in said
    assert "leave airports out of the spec, no query uses it: saves" in said
    assert re.search(r"query makers +views of [0-9,]+ bytes, [0-9,]+ stored rows", said)
    assert main(["explain", str(spec), "--json", "--data", *files]) == 0
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert found["relations"]["flights"]["rows"] == ROWS
    assert found["largest"]["query"] == "makers"
    assert found["bytes"]["total"] > found["bytes"]["snapshot"] > 0
    assert found["memory"] > 100_000_000
    saved = next(u["saves"] for u in found["smaller"]["unused"] if u["relation"] == "flights")
    without = spec.read_text().replace("carrier: string, ", "").replace(" dep: int64,", "")
    spec.write_text(without)
    less = estimate_spec(spec, files)
    before = found["relations"]["flights"]["bytes"] + found["dictionary_bytes"]
    assert 0.9 < (before - less.tables.relations["flights"].length - less.tables.dictionaries) / saved < 1.1


def test_a_join_that_is_too_large_to_count_is_a_guess_and_said_to_be_one(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table_counts, "MOST_JOINED", 10_000)
    pairs = "SELECT DISTINCT f.tailnum, g.tailnum AS other FROM flights f, flights g WHERE f.origin = g.dest"
    spec = _spec(tmp_path, {"pairs": pairs})
    found = estimate_spec(spec, files)
    assert found.rough == ("pairs/2",)
    assert found.tables.queries["pairs"].stored > 1_000_000
    assert main(["explain", str(spec), "--data", *files]) == 0
    assert "the rows of pairs/2 are a guess" in capsys.readouterr().out


def test_a_relation_beyond_its_budget_is_said_to_be_refused(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spec, state = _spec(tmp_path, {"joined": JOIN}), tmp_path / "state"
    spec.write_text(spec.read_text() + "    max_view_rows: 1000\n")
    spec.write_text(spec.read_text().replace("joined: {sql: ", "joined:\n    sql: ").replace('tailnum"}', 'tailnum"'))
    assert main(["explain", str(spec), "--data", *files]) == 0
    assert re.search(r"too large +joined/2 would have 60,000 rows, and may have 1,000: raise", capsys.readouterr().out)
    assert main(["init", str(spec), "-s", str(state)]) == 0
    assert main(["apply", "-s", str(state), *files]) == 3


SOME_SPECS = ("fraud", "shop", "sums", "papers/thesis", "papers/yannakakis", "tpch/q9", "tpch/q16", "tpch/q18")


def _column(column: Column, rows: int, random: np.random.Generator, *, is_key: bool) -> pa.Array:
    numbers = np.arange(rows) if is_key else random.integers(0, max(3, rows // 20), rows)
    kind = arrow_type(column.type)
    if column.type.name == "string":
        return pa.array([f"s{number}" for number in numbers])
    if column.type.name == "decimal":
        return pa.array([Decimal(int(n) % 8).scaleb(-column.type.scale) for n in numbers]).cast(kind)
    if column.type.name in ("date", "timestamp"):
        return pa.array([datetime(1994, 1, 1) + timedelta(days=int(n) % 900) for n in numbers]).cast(kind)
    return pa.array(numbers).cast(kind)


@pytest.mark.parametrize("name", SOME_SPECS)
def test_every_kind_of_program_is_counted(name: str, tmp_path: Path) -> None:
    spec, random = ROOT / "specs" / f"{name}.yaml", np.random.default_rng(5)
    planned = plan_spec(spec.read_text(), str(spec))
    tables: dict[str, pa.Table] = {}
    for relation in planned.spec.relations:
        # Of several columns of a key the last one tells rows apart.
        tables[relation.name] = pa.table(
            {c.name: _column(c, 800, random, is_key=c.name in relation.key[-1:]) for c in relation.columns}
        )
        pq.write_table(tables[relation.name], tmp_path / f"{relation.name}.parquet")
    found = estimate_spec(spec, [str(tmp_path)]).tables
    views = Views(planned.spec, planned.kept)
    views.apply(tables)
    real = sizes_of(views)
    assert {n: r.rows for n, r in found.relations.items()} == {n: r.rows for n, r in real.relations.items()}
    for query, size in real.queries.items():
        assert abs(found.queries[query].stored - size.stored) <= 0.1 * size.stored + 10, query
    said, there = (sum(q.length for q in t.queries.values()) + t.shared for t in (found, real))
    assert there / FACTOR - 50_000 < said < there * FACTOR + 50_000


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--data", "no-such-file.csv"], 2, "there is no file"),
        (["extra"], 2, "unexpected extra"),
        (["--data", "x.csv", "--format", "dot"], 2, "leave one of them out"),
        (["--data", "bad.csv"], 3, "nothing says which relation"),
        (["--data", "planes.csv"], 3, "planes.csv: row 1, column year"),
    ],
)
def test_what_cannot_be_estimated_is_an_error_as_in_apply(
    words: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = _spec(tmp_path, {"joined": JOIN})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "planes.csv").write_text("tailnum,year,maker\nN1,soon,Boeing\n")
    assert main(["explain", str(spec), *words]) == code
    assert said in capsys.readouterr().err


def test_distinct_values_are_extrapolated_as_if_they_were_drawn() -> None:
    random = np.random.default_rng(3)
    drawn = random.integers(0, 5000, 100_000)
    few = len(np.unique(drawn[:4000]))
    assert 0.95 < extrapolated(few, 4000, 100_000) / len(np.unique(drawn)) < 1.05
    assert extrapolated(10, 4000, 100_000) == 10
    assert extrapolated(4000, 4000, 100_000) == 100_000
