"""Row groups that are encoded side by side make the file that one writer makes, byte for byte."""

from __future__ import annotations

import io
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynq_cli.io import thrift
from dynq_cli.io.results.parquet_groups import options_for, write_groups
from dynq_cli.io.thrift import Field

from .values import TYPES, columns


def _by_one_writer(groups: Sequence[pa.Table], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, **(options_for(groups[0]) if groups else {})) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
    return sink.getvalue()


def _side_by_side(groups: Sequence[pa.Table], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    write_groups(iter(groups), schema, sink)
    return sink.getvalue()


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_the_file_is_that_of_one_writer_whatever_its_types(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), max_size=5))
    schema = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])
    groups = [
        pa.table({name: data.draw(columns(name, min_size=size, max_size=size)) for name in TYPES}, schema=schema)
        for size in sizes
    ]
    assert _side_by_side(groups, schema) == _by_one_writer(groups, schema)


@pytest.mark.parametrize("many", [0, 1, 2, 3, 17, 40])
def test_the_file_is_that_of_one_writer_whatever_its_length(many: int) -> None:
    """Dictionaries that become too large, pages in plain, groups past the sixteenth, columns past the sixteenth."""
    rows = 300_000 if many == 3 else 1_000
    numbers = [pa.array(range(n * rows, (n + 1) * rows), pa.int64()) for n in range(many)]
    schema = pa.schema([pa.field(f"c{i}", pa.int64(), False) for i in range(20 if many != 3 else 2)])
    groups = [pa.table([column] * len(schema), schema=schema) for column in numbers]
    content = _side_by_side(groups, schema)
    assert content == _by_one_writer(groups, schema)
    if many:
        assert pq.read_table(pa.BufferReader(content)).column(1).to_pylist() == list(range(many * rows))


def test_duckdb_reads_every_row_group(tmp_path: Path) -> None:
    groups = [pa.table({"x": range(n, n + 100), "s": [f"t{i % 7}" for i in range(100)]}) for n in range(0, 5000, 100)]
    path = tmp_path / "x.parquet"
    with path.open("wb") as file:
        write_groups(iter(groups), groups[0].schema, file)
    found = duckdb.execute(f"SELECT count(*), sum(x), count(DISTINCT s) FROM '{path}'").fetchall()
    assert found == [(5000, sum(range(5000)), 7)]


def test_a_dictionary_is_for_texts_and_where_it_saves_much() -> None:
    rows = 20_000
    draw = Random(1)
    first = pa.table(
        {
            "runs": [i // 50 for i in range(rows)],
            "pattern": [i % 40 for i in range(rows)],
            "unique": pa.array([draw.getrandbits(62) for _ in range(rows)], pa.int64()),
            "few": [draw.randrange(4) for _ in range(rows)],
            "halves": [draw.randrange(4) / 2 for _ in range(rows)],
            "text": [str(i) for i in range(rows)],
            "money": pa.array([Decimal(i) for i in range(rows)], pa.decimal128(12, 2)),
        }
    )
    assert set(options_for(first)["use_dictionary"]) == {"few", "halves", "text", "money"}
    assert options_for(first.select(["runs", "unique"]))["use_dictionary"] is False
    assert options_for(first.slice(0, 0))["use_dictionary"] == ["text", "money"]


_values = st.recursive(
    st.one_of(
        st.sampled_from([Field(thrift.TRUE, True), Field(thrift.FALSE, False)]),
        st.builds(Field, st.sampled_from([thrift.I16, thrift.I32, thrift.I64]), st.integers(-(2**63), 2**63 - 1)),
        st.builds(Field, st.just(thrift.DOUBLE), st.binary(min_size=8, max_size=8)),
        st.builds(Field, st.just(thrift.BINARY), st.binary(max_size=300)),
        st.builds(
            lambda items: Field(thrift.LIST, Field(thrift.I32, items)), st.lists(st.integers(-9, 9), max_size=20)
        ),
        st.builds(
            lambda items: Field(thrift.LIST, Field(thrift.TRUE, items)),
            st.lists(st.sampled_from([b"\x01", b"\x02"]), max_size=20),
        ),
    ),
    lambda inner: st.builds(
        lambda fields: Field(thrift.STRUCT, dict(sorted(fields.items()))),
        st.dictionaries(st.integers(1, 100), inner, max_size=6),
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.integers(1, 40), _values, max_size=8))
def test_a_struct_is_read_as_it_was_written(fields: dict[int, Field]) -> None:
    struct = dict(sorted(fields.items()))
    content = thrift.written(struct)
    assert thrift.read(content) == struct
    for cut in range(0, len(content), 1 + len(content) // 20):
        with pytest.raises((IndexError, ValueError)):
            thrift.read(content[:cut])


def test_what_no_encoder_can_write_is_said() -> None:
    schema = pa.schema([("x", pa.int64())])
    with pytest.raises(ValueError, match="schema"):
        write_groups(iter([pa.table({"y": ["a"]})]), schema, io.BytesIO())
