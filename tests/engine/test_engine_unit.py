"""What the engine promises beyond random histories: exact counts, refusals without a trace, growth, one pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import engine as engine_module
from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec


def live_of(relations: str, **queries: str) -> Views:
    """Relations as lines of YAML; queries as SQL, or as rules where they have an arrow."""
    lines = ["version: 1", "relations:", *(f"  {line.strip()}" for line in relations.strip().splitlines()), "queries:"]
    for name, text in queries.items():
        lines.append(
            f'  {name}: {{rule: "{text}", semantics: bag}}' if ":-" in text else f'  {name}: {{sql: "{text}"}}'
        )
    spec = parse_spec("\n".join(lines), "spec.yaml")
    return Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})


def rows(live: Views, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for batch in live.enum(query) for row in batch.to_pylist()), key=str)


def seen(live: Views) -> list[object]:
    """Everything a reader can see, order included."""
    queries = live.layout.trees
    return [(live.count(q), [b.to_pylist() for b in live.enum(q)]) for q in queries] + [live.dictionaries.counts()]


def star(width: int) -> Views:
    relations = "\n".join(f"R{i}: {{columns: {{k: int64, v: int64}}}}" for i in range(width))
    body = ", ".join(f"R{i}(k, v{i})" for i in range(width))
    head = ", ".join(f"v{i}" for i in range(width))
    return live_of(relations, all=f"all(k, {head}) :- {body}", key=f"key(k) :- {body}")


def test_six_relations_of_a_million_rows_on_one_key_count_to_ten_to_the_36() -> None:
    live = star(6)
    table = pa.table({"k": [7] * 1000, "v": range(1000), "_count": [1000] * 1000})
    live.apply({f"R{i}": table for i in range(6)})
    live._check()
    assert live.count("all") == (10**36, 10**18)
    assert live.count("key") == (10**36, 1)
    assert live.test("key", {"k": 7}) == 10**36
    live.apply({"R3": pa.table({"_change_type": ["delete"], "k": [7], "v": [0], "_count": [999]})})
    assert live.count("all") == (10**30 * (10**6 - 999), 10**18)


def test_hundreds_of_thousands_of_real_rows_on_one_key_count_exactly() -> None:
    live = star(2)
    many = 300_000
    table = pa.table({"k": np.ones(many, np.int64), "v": np.arange(many)})
    live.apply({"R0": table, "R1": table})
    assert live.count("all") == (many**2, many**2)
    assert live.count("key") == (many**2, 1)
    live.apply({"R0": table.slice(1).append_column("_change_type", pa.repeat("delete", many - 1))})
    assert live.count("all") == (many, many)


@pytest.mark.parametrize("seed", range(5))
def test_counts_up_to_127_bits_are_exact(seed: int) -> None:
    chance = Random(seed)
    live = star(3)
    counts = [[chance.getrandbits(chance.randint(1, 40)) + 1 for _ in range(3)] for _ in range(3)]
    for i, each in enumerate(counts):
        live.apply({f"R{i}": pa.table({"k": [1, 1, 2], "v": [1, 2, 3], "_count": each})})
        live._check()
    one, two = 1, 1
    for a, b, c in counts:
        one, two = one * (a + b), two * c
    assert live.count("all") == (one + two, 9)
    assert (live.test("key", {"k": 1}), live.test("key", {"k": 2})) == (one, two)


def test_a_row_with_more_copies_than_63_bits_is_counted_and_refused_by_enum_with_a_remedy() -> None:
    live = star(3)
    live.apply({f"R{i}": pa.table({"k": [1], "v": [1], "_count": [2**40]}) for i in range(3)})
    assert live.count("key") == (2**120, 1)
    with pytest.raises(RejectedError, match="semantics: set"):
        list(live.enum("key"))


def refused(live: Views, tables: dict[str, pa.Table]) -> None:
    before = seen(live)
    with pytest.raises(RejectedError):
        live.apply(tables)
    live._check()
    assert seen(live) == before


KEYED = """
K: {columns: {k: int64, v: int64, s: string?}, key: [k]}
P: {columns: {a: int64, b: int64}, key: [a, b]}
M: {columns: {k: int64, t: int8}}
"""


@pytest.fixture
def keyed() -> Views:
    live = live_of(
        KEYED,
        joined="SELECT K.k, K.v, M.t FROM K, M WHERE K.k = M.k",
        texts="SELECT s FROM K",
        shifted="SELECT M.k * 2 AS d FROM M",
        pairs="SELECT a FROM P",
    )
    live.apply(
        {"K": pa.table({"k": [1, 2], "v": [10, 20], "s": ["x", None]}), "M": pa.table({"k": [1, 1], "t": [5, 5]})}
    )
    live.apply({"P": pa.table({"a": [1], "b": [1]})})
    return live


def changed(kinds: list[str], **columns: list[Any]) -> pa.Table:
    return pa.table({"_change_type": kinds, **columns})


BAD: dict[str, Callable[[], dict[str, pa.Table]]] = {
    "a missing row": lambda: {"M": changed(["delete"], k=[9], t=[9])},
    "more copies than there are": lambda: {"M": changed(["delete"], k=[1], t=[5], _count=[3])},
    "an old image that differs": lambda: {"K": changed(["delete"], k=[1], v=[11], s=["x"])},
    "an update of an old image that differs": lambda: {
        "K": changed(["update_preimage", "update_postimage"], k=[1, 1], v=[11, 12], s=["x", "x"])
    },
    "a key that is there": lambda: {"K": pa.table({"k": [1], "v": [11], "s": ["z"]})},
    "the same row again under a key": lambda: {"K": pa.table({"k": [1], "v": [10], "s": ["x"]})},
    "a key twice in one batch": lambda: {"K": pa.table({"k": [5, 5], "v": [1, 2], "s": ["p", "q"]})},
    "a key of all columns again": lambda: {"P": pa.table({"a": [1], "b": [1]})},
    "two copies under a key": lambda: {"P": pa.table({"a": [2], "b": [2], "_count": [2]})},
    "NULL where none may be": lambda: {"K": pa.table({"k": [3], "v": pa.array([None], pa.int64()), "s": ["new"]})},
    "a value too large": lambda: {"M": pa.table({"k": [1], "t": [128]})},
    "a value of another type": lambda: {"M": pa.table({"k": ["one"], "t": [1]})},
    "the smallest int64": lambda: {"M": pa.table({"k": [-(2**63)], "t": [1]})},
    "a column left out": lambda: {"K": pa.table({"k": [3], "s": ["new"]})},
    "no copies": lambda: {"M": pa.table({"k": [1], "t": [1], "_count": [0]})},
    "an operation of no kind": lambda: {"M": changed(["upsert"], k=[1], t=[1])},
    "no operation": lambda: {"M": pa.table({"_change_type": pa.array([None], pa.string()), "k": [1], "t": [1]})},
    "copies that are no number": lambda: {"M": pa.table({"k": [1], "t": [1], "_count": ["two"]})},
    "an expression out of range": lambda: {"M": pa.table({"k": [2**62], "t": [1]})},
    "more copies than 63 bits": lambda: {"M": pa.table({"k": [8, 8], "t": [1, 1], "_count": [2**62, 2**62]})},
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_batch_is_refused_and_leaves_no_trace(keyed: Views, what: str) -> None:
    fine = {"K": pa.table({"k": [7], "v": [7], "s": ["seven"]}), "P": pa.table({"a": [3], "b": [4]})}
    bad = BAD[what]()
    refused(keyed, bad)
    refused(keyed, {**{k: v for k, v in fine.items() if k not in bad}, **bad})
    refused(keyed, {**bad, **{k: v for k, v in fine.items() if k not in bad}})
    keyed.apply(fine)
    keyed._check()
    assert rows(keyed, "texts") == [("seven", 1), ("x", 1), (None, 1)]


def test_an_unknown_relation_is_a_usage_error_that_leaves_no_trace(keyed: Views) -> None:
    before = seen(keyed)
    with pytest.raises(UsageError, match="K, P, M"):
        keyed.apply({"K": pa.table({"k": [3], "v": [1], "s": ["new"]}), "Z": pa.table({"a": [1]})})
    assert seen(keyed) == before


def test_a_count_past_127_bits_is_refused_and_nothing_wrong_is_read_afterwards() -> None:
    live = star(4)
    live.apply({f"R{i}": pa.table({"k": [1], "v": [1], "_count": [2**40]}) for i in range(3)})
    before = live.count("key")
    with pytest.raises(DynqError):
        live.apply({"R3": pa.table({"k": [1], "v": [1], "_count": [2**40]})})
    try:
        after = live.count("key")
    except DynqError:
        with pytest.raises(DynqError):
            list(live.enum("key"))
        with pytest.raises(DynqError):
            live.apply({})
    else:
        assert after == before
        live._check()


def test_copies_of_many_rows_behind_one_leaf_row_do_not_wrap_around() -> None:
    live = live_of("R: {columns: {a: int64, b: int64}}", projected="SELECT a FROM R")
    live.apply({"R": pa.table({"a": [1], "b": [1], "_count": [2**62]})})
    with pytest.raises(DynqError):
        live.apply({"R": pa.table({"a": [1], "b": [2], "_count": [2**62]})})


@pytest.mark.parametrize("kinds", [("insert", "delete"), ("delete", "insert")])
def test_insert_and_delete_of_one_row_in_one_batch_cancel_in_either_order(keyed: Views, kinds: tuple[str, ...]) -> None:
    before = seen(keyed)[:-1]
    row = changed(list(kinds), k=[9, 9], v=[1, 1], s=["x", "x"])
    keyed.apply({"M": changed(list(kinds), k=[2, 2], t=[1, 1]), "K": row})
    keyed._check()
    assert seen(keyed)[:-1] == before


def test_two_keys_may_swap_their_rows_in_one_batch(keyed: Views) -> None:
    kinds = ["insert", "insert", "delete", "delete"]
    keyed.apply({"K": changed(kinds, k=[1, 2, 1, 2], v=[20, 10, 10, 20], s=[None, "x", "x", None])})
    keyed._check()
    assert rows(keyed, "joined") == [(1, 20, 5, 2)]


def test_simultaneous_changes_of_all_atoms_of_a_self_join_are_one_change() -> None:
    live = live_of(
        "E: {columns: {a: int64, b: int64}}",
        paths="SELECT x.a, x.b, y.b AS c FROM E x, E y WHERE x.b = y.a",
        loops="SELECT DISTINCT a FROM E WHERE a = b",
    )
    edges = {(a, b) for a, b in product(range(4), repeat=2) if (a + 2 * b) % 3}
    live.apply({"E": pa.table({"a": [a for a, _ in edges], "b": [b for _, b in edges]})})
    moved = sorted(edges)[:5]
    live.apply({"E": changed(["delete"] * 5, a=[a for a, _ in moved], b=[b for _, b in moved])})
    live._check()
    left = edges - set(moved)
    assert rows(live, "paths") == sorted((a, b, d, 1) for a, b in left for c, d in left if b == c)
    assert rows(live, "loops") == sorted((a,) for a, b in left if a == b)


def test_values_that_change_places_under_an_equal_sum_are_seen() -> None:
    live = live_of(
        "R: {columns: {a: int64, b: int64}}\nS: {columns: {b: int64, c: int64}}",
        joined="SELECT R.a, R.b, S.c FROM R, S WHERE R.b = S.b",
    )
    live.apply({"R": pa.table({"a": [1], "b": [1]}), "S": pa.table({"b": [1], "c": [5]})})
    live.apply({"S": changed(["delete", "insert"], b=[1, 1], c=[5, 6])})
    live._check()
    assert rows(live, "joined") == [(1, 1, 6, 1)]


def test_a_distinct_count_that_changes_under_an_equal_sum_is_seen() -> None:
    live = live_of(
        "R: {columns: {a: int64, b: int64}}\nS: {columns: {b: int64, c: int64}}",
        joined="SELECT R.a, R.b, S.c FROM R, S WHERE R.b = S.b",
    )
    live.apply({"R": pa.table({"a": [1], "b": [1]}), "S": pa.table({"b": [1], "c": [5], "_count": [2]})})
    assert live.count("joined") == (2, 1)
    live.apply({"S": changed(["delete", "insert", "insert"], b=[1, 1, 1], c=[5, 6, 7], _count=[2, 1, 1])})
    live._check()
    assert live.count("joined") == (2, 2)


@pytest.mark.parametrize("chunk", [1, 3, 8192])
def test_tables_grow_inside_a_batch_of_any_chunk_size(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(engine_module, "CHUNK", chunk)
    live = star(2)
    many = 500 if chunk < 100 else 30_000
    table = pa.table({"k": [i % 97 for i in range(many)], "v": range(many)})
    live.apply({"R0": table, "R1": pa.table({"k": range(97), "v": [0] * 97})})
    assert live.count("all") == (many, many)
    live.apply({"R0": table.add_column(0, "_change_type", [["delete"] * many])})
    assert live.count("all") == (0, 0)
    live._check()


def test_an_empty_batch_changes_nothing(keyed: Views) -> None:
    before = seen(keyed)
    keyed.apply({})
    keyed.apply({"K": changed([], k=pa.array([], pa.int64()), v=pa.array([], pa.int64()), s=pa.array([], pa.string()))})
    keyed._check()
    assert seen(keyed) == before


def test_a_boolean_query_says_whether_there_is_a_row() -> None:
    some = "SELECT DISTINCT 1 AS one FROM R, S WHERE R.a = S.a"
    live = live_of("R: {columns: {a: int64}}\nS: {columns: {a: int64}}", some=some)
    assert (live.count("some"), rows(live, "some")) == ((0, 0), [])
    live.apply({"R": pa.table({"a": [1, 2]}), "S": pa.table({"a": [2, 2]})})
    assert (live.count("some"), rows(live, "some")) == ((1, 1), [(1,)])
    assert (live.test("some", {"one": 1}), live.test("some", {"one": 2})) == (1, 0)


def test_columns_that_are_equal_keep_their_own_types() -> None:
    live = live_of(
        "R: {columns: {a: int64, d: 'decimal(18,1)'}}\nS: {columns: {b: int64}}",
        same="SELECT R.a, R.d, S.b FROM R, S WHERE S.b = R.a AND S.b = R.d",
    )
    live.apply({"R": pa.table({"a": [1], "d": pa.array([1], pa.decimal128(18, 1))}), "S": pa.table({"b": [1]})})
    (row,) = pa.Table.from_batches(live.enum("same")).to_pylist()
    assert (type(row["a"]), type(row["d"])) == (int, Decimal)
    assert row == {"a": 1, "d": 1, "b": 1, "_count": 1}
    assert live.test("same", {"a": 1, "d": Decimal("1.0"), "b": 1}) == 1


def test_a_test_of_a_value_that_an_equal_column_cannot_hold_says_no() -> None:
    live = live_of(
        "R: {columns: {a: int32, d: 'decimal(18,1)'}}\nS: {columns: {b: int16}}",
        same="SELECT R.a, R.d, S.b FROM R, S WHERE S.b = R.a AND S.b = R.d",
    )
    live.apply({"R": pa.table({"a": [1], "d": pa.array([1], pa.decimal128(18, 1))}), "S": pa.table({"b": [1]})})
    assert live.test("same", {"a": 1, "d": Decimal("1.0"), "b": 1}) == 1
    assert live.test("same", {"a": 1, "d": Decimal("1.5"), "b": 1}) == 0
    assert live.test("same", {"a": 1, "d": Decimal(10**15), "b": 1}) == 0


# A line of a kernel, and what it must not say: the tests above and the random ones have to notice.
MUTANTS = {
    "nothing is changed": ("update.py", "", ""),
    "a value that stays the same in its first column touches nothing": (
        "update.py",
        "changed = changed or was != now",
        "changed = changed or (i == 0 and was != now)",
    ),
    "only the first reader of a touched group is recomputed": (
        "update.py",
        "row = np.int64(halves[2 * record(table, row) + child.reader_next])",
        "row = np.int64(-1)",
    ),
    "rows of a refused batch stay": ("base.py", "if store.words[at + table.mult] == 0:", "if False:"),
    "sums forget to carry": ("int128.py", "hi + new_hi + np.int64(more < less)", "hi + new_hi"),
}
NOTICE = """
from tests.engine import random_queries, random_runs, test_engine_unit, test_enumeration
test_enumeration.without_prefetch()
test_engine_unit.test_a_distinct_count_that_changes_under_an_equal_sum_is_seen()
for seed in range(4):
    test_engine_unit.test_counts_up_to_127_bits_are_exact(seed)
for seed in range(16):
    random_runs.run(random_queries.random_case(seed, 5, 5))
"""


@pytest.mark.parametrize("what", MUTANTS)
def test_the_tests_notice_when(what: str, tmp_path: Path) -> None:
    name, line, instead = MUTANTS[what]
    root = Path(__file__).parents[2]
    shutil.copytree(root / "dynq_cli", tmp_path / "dynq_cli", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").symlink_to(root / "tests")
    if line:
        kernel = tmp_path / "dynq_cli" / "engine" / "kernels" / name
        source = kernel.read_text("utf-8")
        assert source.count(line) == 1, f"{name} does not say {line!r} once: adapt the mutant to the kernel"
        kernel.write_text(source.replace(line, instead), "utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NOTICE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    noticed = "AssertionError" in run.stderr or "Mismatch" in run.stderr
    assert (run.returncode, noticed) == ((1, True) if line else (0, False)), run.stderr


@pytest.mark.parametrize("times", [2, 3, 4])
def test_deletes_that_add_up_past_63_bits_bring_no_row(times: int) -> None:
    live = live_of("R: {columns: {x: int64}}", q="SELECT x FROM R WHERE x > 0")
    gone = pa.table({"x": [1] * times, "_change_type": ["delete"] * times, "_count": [2**63 - 1] * times})
    with pytest.raises(RejectedError, match="deletes a row that is not there"):
        live.apply({"R": gone})
    assert live.count("q") == (0, 0)
    live._check()


def test_values_next_to_the_smallest_int64_are_joined_by_their_offset() -> None:
    """The smallest one stands for NULL, is in no column, and so joins with nothing."""
    relations = "R: {columns: {x: int64}}\n  S: {columns: {y: int64}}"
    live = live_of(relations, q="SELECT x, y FROM R, S WHERE x = y + 1", p="SELECT x FROM R, S WHERE x = y - 3")
    first, last = -(2**63) + 1, 2**63 - 1
    live.apply({"R": pa.table({"x": [first, first + 1, last]}), "S": pa.table({"y": [first, last - 1, last, -1]})})
    assert sorted(row["x"] for batch in live.enum("q") for row in batch.to_pylist()) == [first + 1, last]
    assert live.count("p") == (0, 0)
    live._check()
