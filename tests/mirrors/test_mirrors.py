"""A mirror is equal to its result after every run, and what others did to it is noticed."""

from __future__ import annotations

import shutil
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.session import mirrors
from dynq_cli.session.alter import alter
from dynq_cli.session.apply_logs import make
from dynq_cli.session.run import run
from dynq_cli.storage.state import State, open
from tests.mirrors.targets import Target, comparable
from tests.seeds import seeds

TYPES = {
    "i": "int8?",
    "s": "string?",
    "f": "float64?",
    "g": "float32",
    "d": "decimal(20,3)?",
    "b": "binary?",
    "o": "bool?",
    "day": "date?",
    "ts": "timestamp?",
    "tod": "time?",
}
QUERIES = {
    "bag": "SELECT i, s, f, ts FROM R",
    "wide": "SELECT DISTINCT i, s, f, g, d, b, o, day, ts FROM R",
    "joined": "SELECT R.s, x, R.i FROM R LEFT JOIN S ON R.i = x",
    "grouped": "SELECT s, count(*) AS n, sum(d) AS total, max(day) AS last FROM R GROUP BY s",
    "one": "SELECT count(*) AS n, avg(f) AS mean FROM R",
}


def spec_of(target: Target, queries: dict[str, str], tables: dict[str, str] | None = None) -> str:
    columns = ", ".join(f"{name}: {kind!r}" for name, kind in TYPES.items())
    outputs = [
        f"  - {{query: {query}, kind: mirror, {target.output(table)}}}"
        for query, table in (tables or {name: name for name in queries}).items()
    ]
    return "\n".join(
        [
            "version: 1",
            "relations:",
            f"  R: {{columns: {{{columns}}}}}",
            "  S: {columns: {x: int64}}",
            "queries:",
            *(f"  {name}: {{sql: {sql!r}}}" for name, sql in queries.items()),
            "outputs:",
            *outputs,
            "",
        ]
    )


VALUES: dict[str, list[Any]] = {
    "i": [None, 0, 1, 2, -128],
    "s": [None, "", "a", "a\tb", "\\.", "\\N", "line\nbreak\r", 'quo"te,', "'; DROP", "ü\u2028€", "NaN"],
    "f": [None, 0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e-310, 0.1],
    "g": [0.0, 1.5, float("nan")],
    "d": [None, Decimal("0.000"), Decimal("-12345678901234567.125"), Decimal("1.100")],
    "b": [None, b"", b"\\x00", bytes(range(256))],
    "o": [None, True, False],
    "day": [None, date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    "ts": [None, datetime(1, 1, 1), datetime(2024, 3, 1, 10, 15, 0, 5), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "tod": [None, time(0), time(23, 59, 59, 999999)],
}
ARROW = pa.schema(
    [
        ("i", pa.int8()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(20, 3)),
        ("b", pa.binary()),
        ("o", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tod", pa.time64("us")),
    ]
)


def random_tables(random: Random, rows: int) -> dict[str, pa.Table]:
    """Rows that repeat, with NULLs and everything that is hard to write."""
    drawn = [{name: random.choice(VALUES[name]) for name in ARROW.names} for _ in range(rows)]
    drawn += random.choices(drawn, k=rows // 2) if drawn else []
    return {
        "R": pa.Table.from_pylist(drawn, ARROW),
        "S": pa.table({"x": pa.array([random.randint(-1, 3) for _ in range(random.randint(0, 4))], pa.int64())}),
    }


def check(state: State, target: Target, tables: dict[str, str]) -> None:
    for query, table in tables.items():
        batches = list(state.enum(query))
        wanted = comparable(row.values() for batch in batches for row in batch.to_pylist())
        assert target.rows(table) == wanted, (query, state.version)
        assert target.columns(table) == state.schema(query).names


@pytest.mark.parametrize("seed", seeds(1))
def test_a_mirror_is_equal_to_its_result_after_every_run(target: Target, seed: int) -> None:
    random = Random(seed)
    Path("inbox").mkdir()
    queries = QUERIES | ({"times": "SELECT tod, i FROM R"} if target.has_times else {})
    Path("spec.yaml").write_text(spec_of(target, queries), "utf-8")
    make("spec.yaml", "state").close()
    tables = {name: name for name in queries}
    for turn in range(6):
        for _ in range(random.choice((1, 1, 3))):
            with open("state") as state:
                state.replace(random_tables(random, random.choice((0, 1, 5, 20))))
        match random.randrange(5):
            case 0:
                target.drop(random.choice(list(tables)))
            case 1:  # the versions that mirrors need are kept
                from dynq_cli.storage.prune import prune

                prune(Path("state"))
            case 2 if turn:  # a copy that went another way, to the same version or beyond
                shutil.copytree("state", "copy")
                run("state", "inbox")
                shutil.rmtree("state")
                shutil.move("copy", "state")
                with open("state") as state:
                    state.replace(random_tables(random, 7))
        run("state", "inbox")
        with open("state") as state:
            check(state, target, tables)
        assert run("state", "inbox").written == ()


def test_a_change_writes_the_delta_alone_and_moves_its_mark(target: Target) -> None:
    small(target)
    with open("state") as state:
        state.apply({"R": pa.table({"x": [4, 1], "s": ["d", "a"], "_change_type": ["insert", "delete"]})})
        (before,) = [version for name, version in state.marks.items() if name.startswith(mirrors.MARKS)]
        (written,) = run("state", "inbox").written
        assert "changed: 1 in, 1 out" in written and ("***" in written or "@" not in written)
        assert "loaded" not in written
        assert [v for n, v in state.marks.items() if n.startswith(mirrors.MARKS)] == [state.version] != [before]
        check(state, target, {"q": "m"})


@pytest.mark.parametrize("how", ["insert", "update", "delete"])
def test_what_others_did_is_noticed_and_nothing_is_written(target: Target, how: str) -> None:
    small(target)
    target.tamper("m", how)
    tampered = target.rows("m")
    for _ in range(2):
        with open("state") as state:
            state.apply({"R": pa.table({"x": [5], "s": ["e"]})})
        with pytest.raises(RejectedError, match="drop the table") as refused:
            run("state", "inbox")
        assert refused.value.code == "mirror-touched"
        assert target.rows("m") == tampered
    target.drop("m")
    (written,) = run("state", "inbox").written
    assert "loaded: 4 in" in written
    with open("state") as state:
        check(state, target, {"q": "m"})


def test_a_table_that_is_not_dynqs_is_left_alone(target: Target) -> None:
    target.make("m")
    Path("inbox").mkdir()
    Path("spec.yaml").write_text(SMALL.format(output=target.output("m")), "utf-8")
    make("spec.yaml", "state").close()
    with pytest.raises(RejectedError, match="dynq did not make it"):
        run("state", "inbox")
    assert not target.rows("m")
    with open("state") as state:
        assert not state.marks


def test_the_mirror_of_another_state_is_left_alone(target: Target) -> None:
    small(target)
    shutil.rmtree("state")
    make("spec.yaml", "state").close()
    before = target.rows("m")
    with pytest.raises(RejectedError, match="another state"):
        run("state", "inbox")
    assert target.rows("m") == before


def test_other_columns_load_the_table_anew_and_other_rows_change_it(target: Target) -> None:
    small(target)
    text = Path("spec.yaml").read_text("utf-8")
    for old, new, how in (
        ("SELECT x, s FROM R", "SELECT x, s FROM R WHERE x > 1", "changed"),
        ("SELECT x, s FROM R WHERE x > 1", "SELECT x FROM R", "loaded"),
        ("SELECT x FROM R", "SELECT s, x + 1 AS y, x FROM R", "loaded"),
    ):
        text = text.replace(old, new)
        Path("spec.yaml").write_text(text, "utf-8")
        alter(Path("state"), "spec.yaml")
        (written,) = run("state", "inbox").written
        assert how in written, (new, written)
        with open("state") as state:
            check(state, target, {"q": "m"})


def test_a_mirror_that_fails_holds_up_neither_files_nor_other_mirrors(target: Target) -> None:
    target.make("m")
    Path("inbox").mkdir()
    text = SMALL.format(output=target.output("m"))
    text += f"  - {{query: q, kind: mirror, {target.output('other')}}}\n  - {{query: q, kind: count, path: q.json}}\n"
    Path("spec.yaml").write_text(text, "utf-8")
    make("spec.yaml", "state").close()
    Path("inbox/R.csv").write_text("x,s\n1,a\n", "utf-8")
    written: list[str] = []
    with pytest.raises(RejectedError, match="did not make it"):
        run("state", "inbox", wrote=written.append)
    assert written[0] == "q.json" and "other" in written[1]
    assert len(target.rows("other")) == 1


def test_a_dry_run_asks_no_other_system(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    small(target)
    monkeypatch.setattr(mirrors, "sync_one", None)
    assert run("state", "inbox", dry_run=True).written == ()
    with open("state") as state:
        state.apply({"R": pa.table({"x": [5], "s": ["e"]})})
    (told,) = run("state", "inbox", dry_run=True).written
    assert "q1 w2" not in told and ("m" in told)


def test_marks_of_mirrors_that_are_gone_are_removed(target: Target) -> None:
    small(target)
    text = Path("spec.yaml").read_text("utf-8").partition("outputs:")[0]
    Path("spec.yaml").write_text(text, "utf-8")
    alter(Path("state"), "spec.yaml")
    with open("state") as state:
        assert len(state.marks) == 1
        run("state", "inbox")
        assert not state.marks


def test_a_result_without_columns_has_no_table(target: Target) -> None:
    Path("inbox").mkdir()
    text = SMALL.format(output=target.output("m")).replace('sql: "SELECT x, s FROM R"', 'rule: "q() :- R(x, s)"')
    Path("spec.yaml").write_text(text, "utf-8")
    make("spec.yaml", "state").close()
    with pytest.raises(DynqError, match="without columns has no table"):
        run("state", "inbox")


def test_duckdb_cannot_keep_a_column_that_hides_the_ids_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inbox").mkdir()
    text = SMALL.format(output='to: "duckdb:///m.duckdb", table: m')
    Path("spec.yaml").write_text(text.replace("x, s FROM", "x AS RowId, s FROM"), "utf-8")
    make("spec.yaml", "state").close()
    with pytest.raises(DynqError, match="no column can have that name"):
        run("state", "inbox")


def test_duckdb_makes_the_schema_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inbox").mkdir()
    Path("spec.yaml").write_text(SMALL.format(output='to: "duckdb:///m.duckdb", table: marts.m'), "utf-8")
    make("spec.yaml", "state").close()
    for x in (1, 2):
        with open("state") as state:
            state.apply({"R": pa.table({"x": [x], "s": ["a"]})})
        run("state", "inbox")
        with duckdb.connect("m.duckdb", read_only=True) as file:
            assert file.execute("SELECT max(x), count(*) FROM marts.m").fetchone() == (x, x)


SMALL = """\
version: 1
relations: {{R: {{columns: {{x: int64, s: string?}}}}}}
queries:
  q: {{sql: "SELECT x, s FROM R"}}
outputs:
  - {{query: q, kind: mirror, {output}}}
"""


def small(target: Target) -> None:
    """A state with three rows and their mirror."""
    Path("inbox").mkdir()
    Path("spec.yaml").write_text(SMALL.format(output=target.output("m")), "utf-8")
    make("spec.yaml", "state").close()
    with open("state") as state:
        state.apply({"R": pa.table({"x": [1, 2, 3], "s": ["a", None, "c"]})})
    (written,) = run("state", "inbox").written
    assert "loaded: 3 in, 0 out" in written
