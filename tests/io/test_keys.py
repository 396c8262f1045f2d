"""Candidate keys: what is reported is unique in the rows taken in, however they arrive."""

from __future__ import annotations

from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dynq_cli.io import keys
from dynq_cli.io.keys import KeyFinder, fingerprints
from tests.every_case import every_case

NAMES = ("a", "b", "c")
ROWS = st.lists(st.tuples(*[st.integers(-2, 3) | st.none()] * 3), max_size=14)


@given(ROWS, st.integers(1, 5), st.integers(1, 20))
@example([(1, 1, None), (-1, -1, None)], 1, 2)
@example([(2, None, 1), (-2, None, 0)], 1, 2)
def test_exactly_the_unique_and_never_null_columns_remain(
    rows: list[tuple[int | None, ...]], step: int, limit: int
) -> None:
    candidates = [c for size in (1, 2) for c in combinations(NAMES, size)]
    finder = KeyFinder(candidates, limit)
    finder._next_check = 2
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        finder.feed({n: pa.array([r[i] for r in piece], pa.int64()) for i, n in enumerate(NAMES)}, len(piece))
    head = rows[:limit]
    columns = {n: [r[i] for r in head] for i, n in enumerate(NAMES)}
    expected = [
        c
        for c in candidates
        if all(None not in columns[n] for n in c) and len(set(zip(*(columns[n] for n in c), strict=True))) == len(head)
    ]
    assert finder.finish() == (expected if len(head) > 1 else [])


def test_pairs_are_told_apart_from_their_mirror_images() -> None:
    finder = KeyFinder([("a", "b")], 10)
    finder.feed({"a": pa.array([1, 2, 3]), "b": pa.array([2, 1, 3])}, 3)
    assert finder.finish() == [("a", "b")]


def test_a_column_that_later_rows_lack_is_no_key() -> None:
    finder = KeyFinder([("a",), ("b",)], 10)
    finder.feed({"a": pa.array([1, 2]), "b": pa.array([1, 2])}, 2)
    finder.feed({"a": pa.array([3])}, 1)
    assert finder.finish() == [("a",)]


def test_a_duplicate_far_apart_is_found() -> None:
    count = keys._FIRST_CHECK * 5
    finder = KeyFinder([("a",)], 1 << 20)
    for start in range(0, count, 1000):
        finder.feed({"a": pa.array(range(start, start + 1000))}, 1000)
    finder.feed({"a": pa.array([7])}, 1)
    assert finder.finish() == []


@every_case(
    "values",
    [
        pa.array(["x", "y", "x"]),
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.array([b"x", b"y", b"x"]),
        pa.array([1, 2, 1], pa.uint64()),
        pa.array([1, 2, 1], pa.date32()),
        pa.array([1, 2, 1], pa.date32()).cast(pa.date64()),
        pa.array([1, 2, 1], pa.time64("us")),
        pa.array([1, 2, 1], pa.timestamp("ns", "UTC")),
        pa.array(["1", "2", "1"]).cast(pa.decimal128(20, 0)),
    ],
    ids=lambda values: str(values.type),
)
def test_every_key_type_has_fingerprints_that_agree_with_equality(values: pa.Array) -> None:
    first, second, third = fingerprints(values).to_pylist()
    assert first == third != second


def test_only_the_entries_of_a_dictionary_that_are_in_use_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def noted(value: str) -> int:
        hashed.append(value)
        return hash(value)

    monkeypatch.setattr(keys, "hash", noted, raising=False)
    values = pa.DictionaryArray.from_arrays(pa.array([5, 3, 5]), pa.array([f"text {i}" for i in range(1000)]))
    first, second, third = fingerprints(values).to_pylist()
    assert first == third != second
    assert hashed == ["text 5", "text 3"]
