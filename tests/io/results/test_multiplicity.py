"""`--expand` gives every copy once, in O(block) memory; `--limit` gives the first rows and asks for no more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dynq_cli.io.results.multiplicity import expand, expanded_schema, limit

COUNTS = st.lists(st.integers(1, 12), max_size=12)


def _bag(counts: list[int], first: int = 0) -> pa.RecordBatch:
    return pa.record_batch(
        {"x": pa.array(range(first, first + len(counts)), pa.int64()), "_count": pa.array(counts, pa.int64())}
    )


@given(st.lists(COUNTS, min_size=1, max_size=4), st.integers(1, 7))
def test_every_row_comes_as_often_as_it_counts(batches: list[list[int]], block: int) -> None:
    given_rows = [_bag(counts, 100 * n) for n, counts in enumerate(batches)]
    schema = given_rows[0].schema
    out = list(expand(iter(given_rows), schema, block))
    assert [x for b in out for x in b["x"].to_pylist()] == [
        100 * n + row for n, counts in enumerate(batches) for row, many in enumerate(counts) for _ in range(many)
    ]
    assert all(0 < b.num_rows <= block and b.schema == expanded_schema(schema) for b in out)


def test_a_row_with_very_many_copies_is_streamed() -> None:
    batch = _bag([2, 2**63 - 1, 2**63 - 1, 3])
    out = expand(iter([batch]), batch.schema)
    rows = list(limit(out, 1_000_000))
    assert sum(b.num_rows for b in rows) == 1_000_000
    assert list(chain.from_iterable(b["x"].to_pylist() for b in rows))[:4] == [0, 0, 1, 1]


def test_sets_are_expanded_to_themselves() -> None:
    batch = pa.record_batch({"x": [1, 2]})
    assert list(expand(iter([batch]), batch.schema)) == [batch]
    assert expanded_schema(batch.schema) == batch.schema


def test_copies_of_the_row_without_columns_are_rows() -> None:
    batch = pa.record_batch({"_count": pa.array([5], pa.int64())})
    assert [(b.num_rows, b.num_columns) for b in expand(iter([batch]), batch.schema, 3)] == [(3, 0), (2, 0)]


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 20))
def test_a_limit_gives_the_first_rows_and_asks_for_no_more(sizes: list[int], most: int) -> None:
    asked = 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal asked
        for size in sizes:
            yield pa.record_batch({"x": pa.array(range(asked, asked + size), pa.int64())})
            asked += size

    rows = [x for b in limit(source(), most) for x in b["x"].to_pylist()]
    assert rows == list(range(sum(sizes)))[:most]
    assert asked <= most
    assert sum(b.num_rows for b in limit(source(), None)) == sum(sizes)
