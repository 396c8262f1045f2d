"""Verify agrees with every state that is right, and finds what is wrong: in counts, in rows, in either direction."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError, UsageError
from dynq_cli.session import recompute
from dynq_cli.session.verify import Verdict, verify, verify_views
from dynq_cli.spec.load import parse_spec
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_queries import random_case
from tests.engine.random_runs import Stored, apply
from tests.every_case import every_case
from tests.seeds import seeds
from tests.storage.states import small_live, small_state, spec_text


def live_of(text: str, **tables: pa.Table) -> Views:
    planned = plan_spec(text)
    live = Views(planned.spec, planned.kept)
    live.apply(tables)
    return live


def only(live: Views) -> Verdict:
    (verdict,) = verify_views(live)
    return verdict


@pytest.mark.parametrize("seed", seeds(8))
def test_random_states_agree(seed: int) -> None:
    case = random_case(seed)
    planned = plan_spec(spec_text(case))
    live, stored = Views(planned.spec, planned.kept), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
    verdicts = list(verify_views(live))
    assert [v.query for v in verdicts] == [q.name for q in case.queries]
    for verdict, query in zip(verdicts, case.queries, strict=True):
        assert verdict.agrees, f"seed {seed}: {query.text}\n{verdict}"
        assert verdict.counted == live.count(query.name)


def change_copies(live: Views, relation: str, by: int) -> None:
    """Change the copies of the first row of a base table behind the engine's back."""
    arena, table = live.engine.arena, live.layout.bases[relation].table
    row = arena.tables[table]
    places = [int(row["rows"] + i * row["stride"] + row["mult"]) for i in range(int(row["used"]))]
    arena.words[next(p for p in places if arena.words[p])] += by


ONE = """\
version: 1
relations: {R: {columns: {x: int64, y: string?}}, S: {columns: {y: string?, z: int64?}}}
queries: {q: {sql: "SELECT x, R.y FROM R, S WHERE R.y = S.y"}}
"""


def table_s(*ys: str) -> pa.Table:
    return pa.table({"y": list(ys), "z": pa.nulls(len(ys), pa.int64())})


RULES = """\
q(x, sum(z), count(), avg(z), min(z), max(z)) :- R(x, y), S(y, z)
q(x, y, n = count()) :- R(x, y), S(y, _)
q(y, sum(z)) :- S(y, z), S(w, z)
q(sum(x), count()) :- R(x, y), S(y, z), x < z
q(x, count()) :- R(x, _)
""".splitlines()


@every_case("rule", RULES)
@every_case("semantics", ["set", "bag"])
def test_aggregates_of_rules_agree(rule: str, semantics: str) -> None:
    text = [*ONE.splitlines()[:2], f'queries: {{q: {{rule: "{rule}", semantics: {semantics}}}}}']
    chance = Random(rule)
    for rows in (0, 3, 40):
        r = {"x": chance.choices(range(4), k=rows), "y": chance.choices(["a", "b", "c", None], k=rows)}
        s = {"y": chance.choices(["a", "b", None], k=rows), "z": chance.choices([1, 2, 3, None], k=rows)}
        types = {"x": pa.int64(), "y": pa.string(), "z": pa.int64()}
        tables = [pa.table({n: pa.array(v, types[n]) for n, v in t.items()}) for t in (r, s)]
        live = live_of("\n".join(text), R=tables[0], S=tables[1])
        assert only(live).agrees, only(live)


def test_a_base_row_that_the_tree_does_not_know_of_is_found() -> None:
    live = live_of(ONE, R=pa.table({"x": [1, 2], "y": ["a", "b"]}), S=table_s("a", "b"))
    assert only(live).agrees
    change_copies(live, "S", 1)
    verdict = only(live)
    assert not verdict.agrees
    assert verdict.recomputed == (3, 2)
    assert verdict.counted == (2, 2)
    few = verdict.too_few
    assert (few.rows.to_pylist(), few.kept, few.recomputed) == ([{"x": 1, "y": "a"}], (1,), (2,))
    assert verdict.too_many.kept == ()


def test_a_base_row_that_is_gone_from_under_the_tree_is_found() -> None:
    live = live_of(ONE, R=pa.table({"x": [1, 2], "y": ["a", "b"]}), S=table_s("a", "b"))
    change_copies(live, "S", -1)
    verdict = only(live)
    assert not verdict.agrees
    assert verdict.too_many.rows.to_pylist() == [{"x": 1, "y": "a"}]


def test_a_query_that_is_kept_by_the_plan_of_another_is_found() -> None:
    spec = parse_spec(ONE, "spec.yaml")
    other = plan_spec(ONE.replace("WHERE R.y = S.y", "WHERE R.y = S.y AND x > 1"))
    live = Views(spec, other.plans)
    live.apply({"R": pa.table({"x": [1, 2], "y": ["a", "b"]}), "S": table_s("a", "b")})
    assert only(live).too_few.rows.to_pylist() == [{"x": 1, "y": "a"}]


def test_a_wrong_count_is_found_though_the_rows_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_of(ONE, R=pa.table({"x": [1], "y": ["a"]}), S=table_s("a"))
    monkeypatch.setattr(live.engine, "count", lambda query: (2, 1))
    assert not only(live).agrees


def test_a_row_that_is_enumerated_twice_is_found_though_its_copies_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_of(ONE, R=pa.table({"x": [1, 1], "y": ["a", "a"]}), S=table_s("a"))
    (whole,) = live.enum("q")
    half = pa.RecordBatch.from_arrays([*whole.columns[:2], pa.array([1])], schema=whole.schema)
    monkeypatch.setattr(live, "enum", lambda query: iter([half, half]))
    verdict = only(live)
    assert verdict.too_few.kept == verdict.too_many.kept == ()
    assert (verdict.kept, verdict.recomputed) == ((2, 2), (2, 1))
    assert not verdict.agrees


EVERY_TYPE = """\
version: 1
relations:
  R:
    columns: {b: bool?, i: int8?, f: float32?, g: float64?, d: "decimal(9,2)?", w: "decimal(38,5)?", s: string?,
              x: binary?, day: date?, at: time?, ts: timestamp?}
queries:
  all: {sql: "SELECT * FROM R"}
  set: {sql: "SELECT * FROM R", semantics: set}
  rule: {rule: "rule(b, i, f, g, d, w, s, x, day, at, ts) :- R(b, i, f, g, d, w, s, x, day, at, ts)", semantics: bag}
"""


def test_special_values_of_every_type_agree() -> None:
    micro = 1_700_000_000_000_001
    rows = {
        "b": pa.array([None, True, False, True]),
        "i": pa.array([None, -128, 127, 0], pa.int8()),
        "f": pa.array([None, math.nan, -0.0, math.inf], pa.float32()),
        "g": pa.array([None, math.nan, -0.0, -math.inf]),
        "d": pa.array([None, Decimal("-0.01"), Decimal("9999999.99"), Decimal(0)], pa.decimal128(9, 2)),
        "w": pa.array([None, Decimal(10**32), Decimal("-0.00001"), Decimal(0)], pa.decimal128(38, 5)),
        "s": pa.array([None, "", "it's \x00 ü€𝄞", "null"]),
        "x": pa.array([None, b"", b"\x00\xff", b"a"]),
        "day": pa.array([None, -800_000, 2_900_000, 0], pa.int32()).cast(pa.date32()),
        "at": pa.array([None, 0, 86_399_999_999, 1], pa.int64()).cast(pa.time64("us")),
        "ts": pa.array([None, -micro, micro, 0], pa.int64()).cast(pa.timestamp("us")),
    }
    table = pa.table(rows).append_column("_count", pa.array([1, 2, 300_000, 1]))
    verdicts = {v.query: v for v in verify_views(live_of(EVERY_TYPE, R=table))}
    assert all(v.agrees for v in verdicts.values()), verdicts
    assert {name: v.recomputed for name, v in verdicts.items()} == {
        "all": (300_004, 4),
        "set": (4, 4),
        "rule": (300_004, 4),
    }


def test_semantics_given_in_the_spec_hold_for_the_text_too() -> None:
    text = """\
version: 1
relations: {R: {columns: {x: int64, y: int64}}}
queries:
  bag_of_distinct: {sql: "SELECT DISTINCT x FROM R -- all of them;", semantics: bag}
  set_of_all: {sql: "SELECT x FROM R;", semantics: set}
  self_join: {sql: "SELECT a.x, b.x AS x2, a.y FROM R a, R b WHERE a.y = b.y"}
  is_there: {rule: "is_there() :- R(x, x)"}
  is_not_there: {rule: "is_not_there() :- R(9, _)"}
"""
    verdicts = list(verify_views(live_of(text, R=pa.table({"x": [1, 1, 2], "y": [1, 2, 3]}))))
    assert [(v.query, v.agrees, v.recomputed.rows) for v in verdicts] == [
        ("bag_of_distinct", True, 3),
        ("set_of_all", True, 2),
        ("self_join", True, 3),
        ("is_there", True, 1),
        ("is_not_there", True, 0),
    ]


def test_names_of_relations_do_not_meet_those_of_the_comparison() -> None:
    names = ["beside", "given_rows", "kept", "compared", "asked", "written", "main", "select"]
    relations = ", ".join(f"{n}: {{columns: {{copies: int64, c0: int64}}}}" for n in names)
    queries = ", ".join(f"q{i}: {{sql: 'SELECT copies, c0 FROM \"{n}\"'}}" for i, n in enumerate(names))
    text = f"version: 1\nrelations: {{{relations}}}\nqueries: {{{queries}}}\n"
    rows = pa.table({"copies": [1, 2], "c0": [3, 4]})
    verdicts = list(verify_views(live_of(text, **dict.fromkeys(names, rows))))
    assert [v.agrees for v in verdicts] == [True] * len(names)
    assert {v.recomputed for v in verdicts} == {(2, 2)}


def test_at_most_five_rows_are_shown_on_each_side() -> None:
    spec = parse_spec(ONE, "spec.yaml")
    live = Views(spec, plan_spec(ONE.replace("R.y = S.y", "R.y = S.y AND x < 100")).plans)
    many = pa.table({"x": list(range(90, 120)), "y": ["a"] * 30})
    live.apply({"R": many, "S": table_s("a")})
    verdict = only(live)
    assert verdict.too_few.rows["x"].to_pylist() == [100, 101, 102, 103, 104]
    assert verdict.recomputed.rows - verdict.kept.rows == 20


def test_more_copies_than_duckdb_could_hold_are_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "MOST_ROWS", 1000)
    table = pa.table({"x": [1], "y": ["a"], "_count": [2**62]})
    live = live_of(ONE, R=table)
    with pytest.raises(DynqError, match="R has more than 1,000 rows, counting copies"):
        only(live)


def test_a_state_on_disk_agrees_and_is_not_touched(tmp_path: Path) -> None:
    small_state(tmp_path, versions=3).close()
    before = {p.name: p.read_bytes() for p in (tmp_path / "state").iterdir()}
    assert [(v.query, v.agrees) for v in verify(tmp_path / "state")] == [("pairs", True), ("keys", True)]
    assert [v.query for v in verify(tmp_path / "state", "keys")] == ["keys"]
    assert {p.name: p.read_bytes() for p in (tmp_path / "state").iterdir()} == before


def test_an_unknown_query_is_named_with_those_there_are(tmp_path: Path) -> None:
    small_state(tmp_path).close()
    with pytest.raises(UsageError, match="no query nothing in the spec; there is pairs, keys"):
        verify(tmp_path / "state", "nothing")


def test_a_recorded_count_that_the_engine_does_not_share_is_found() -> None:
    class Recorded:
        rows, distinct = 0, 0

    verdicts = list(verify_views(small_live(2), {"pairs": Recorded(), "keys": Recorded()}))  # type: ignore[dict-item]
    assert not any(v.agrees for v in verdicts)


AGGREGATES = """\
version: 1
relations: {R: {columns: {g: int64, x: float64, d: "decimal(9,2)"}}}
queries:
  q: {sql: "SELECT g, AVG(d) AS a, SUM(x) AS s, MIN(x) AS least FROM R GROUP BY g"}
"""


def test_sums_of_floats_agree_but_for_their_last_digits() -> None:
    chance = Random(3)
    rows = [
        (chance.randrange(40), chance.random() * 10 ** chance.randrange(5), chance.randrange(99)) for _ in range(2000)
    ]
    columns = {"g": [g for g, _, _ in rows], "x": [x for _, x, _ in rows], "d": [Decimal(d) / 100 for *_, d in rows]}
    live = live_of(AGGREGATES, R=pa.table(columns))
    assert only(live).agrees
    change_copies(live, "R", 1)
    wrong = only(live)
    assert not wrong.agrees and len(wrong.too_many.kept) == len(wrong.too_few.kept) == 1
