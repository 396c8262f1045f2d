"""Results in all four forms: the same rows, the same bytes each time, and bounded memory."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynq_cli.errors import UsageError
from dynq_cli.io.results import write as writing
from dynq_cli.io.results.forms import Form, form_of
from dynq_cli.io.results.write import write
from tests.every_case import every_case

from .values import TYPES, as_json, columns

FORMS: tuple[Form, ...] = ("parquet", "csv", "jsonl", "arrow")
SCHEMA = pa.schema([pa.field("x", pa.int64(), False), pa.field("s", pa.string())])


def _batches(many: int, rows: int = 1000) -> Iterator[pa.RecordBatch]:
    for n in range(many):
        numbers = pa.array(range(n * rows, (n + 1) * rows), pa.int64())
        texts = pa.array([None if i % 3 == 0 else f"t{i}" for i in range(rows)], pa.string())
        yield pa.RecordBatch.from_arrays([numbers, texts], schema=SCHEMA)


def _written(form: Form, many: int) -> bytes:
    sink = io.BytesIO()
    assert write(_batches(many), SCHEMA, sink, form) == many * 1000
    return sink.getvalue()


def _read(content: bytes, form: Form) -> list[tuple[int, str | None]]:
    if form == "csv":
        rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
        assert rows[0] == ["x", "s"]
        return [(int(x), s or None) for x, s in rows[1:]]
    if form == "jsonl":
        objects = [json.loads(line) for line in content.decode().splitlines()]
        return [(row["x"], row["s"]) for row in objects]
    source = pa.BufferReader(content)
    table = pq.read_table(source) if form == "parquet" else pa.ipc.open_file(source).read_all()
    assert table.schema == SCHEMA
    return list(zip(table["x"].to_pylist(), table["s"].to_pylist(), strict=True))


@every_case("form", FORMS)
@every_case("many", [0, 1, 7])
def test_all_rows_arrive_in_order_and_the_bytes_are_always_the_same(form: Form, many: int) -> None:
    content = _written(form, many)
    expected = [(x, s) for b in _batches(many) for x, s in zip(b["x"].to_pylist(), b["s"].to_pylist(), strict=True)]
    assert _read(content, form) == expected
    assert content == _written(form, many)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_every_type_survives_parquet_arrow_and_json(data: st.DataObject) -> None:
    batch = pa.record_batch({name: data.draw(columns(name, min_size=3, max_size=3)) for name in TYPES})
    for form in ("parquet", "arrow"):
        sink = io.BytesIO()
        write(iter([batch]), batch.schema, sink, form)
        source = pa.BufferReader(sink.getvalue())
        table = pq.read_table(source) if form == "parquet" else pa.ipc.open_file(source).read_all()
        assert repr(table.to_pylist()) == repr(batch.to_pylist())
    sink = io.BytesIO()
    write(iter([batch]), batch.schema, sink, "jsonl")
    exact = {name: kind for name, (kind, _) in TYPES.items() if not pa.types.is_floating(kind)}
    for line, row in zip(sink.getvalue().decode().split("\n"), batch.to_pylist(), strict=False):
        read = json.loads(line)
        assert {name: read[name] for name in exact} == {name: as_json(row[name]) for name in exact}


def test_row_groups_have_262144_rows_or_32_mib() -> None:
    def groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> list[int]:
        sink = io.BytesIO()
        write(batches, schema, sink, "parquet")
        metadata = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    assert groups(_batches(9, 65536), SCHEMA) == [1 << 18, 1 << 18, 1 << 16]
    wide = pa.record_batch({"s": ["x" * (1 << 20)] * 20})
    assert groups(iter([wide, wide, wide]), wide.schema) == [40, 20]


@pytest.mark.parametrize("form", FORMS)
def test_memory_does_not_grow_with_the_result(form: Form) -> None:
    class Nowhere(io.RawIOBase):
        size = 0

        def writable(self) -> bool:
            return True

        def write(self, data: object, /) -> int:
            self.size += len(memoryview(data))  # type: ignore[arg-type]
            return len(memoryview(data))  # type: ignore[arg-type]

        def tell(self) -> int:
            return self.size

    batch = pa.record_batch({"x": pa.array(range(65536), pa.int64())})
    before, most = pa.total_allocated_bytes(), 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for _ in range(64):
            most = max(most, pa.total_allocated_bytes() - before)
            yield pa.record_batch({"x": pa.array(batch["x"])})

    sink = Nowhere()
    assert write(watched(), batch.schema, sink, form) == 64 * 65536
    assert most < 64 << 20


@pytest.mark.parametrize("form", FORMS)
def test_what_fails_is_raised_and_no_thread_is_left(form: Form) -> None:
    class FullError(Exception):
        pass

    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def tell(self) -> int:
            return 0

        def write(self, data: object, /) -> int:
            raise FullError

    def broken() -> Iterator[pa.RecordBatch]:
        yield from _batches(3)
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(FullError):
        write(_batches(1000), SCHEMA, Full(), form)
    with pytest.raises(KeyboardInterrupt):
        write(broken(), SCHEMA, io.BytesIO(), form)
    assert threading.active_count() == before


def test_rows_are_made_while_others_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    made_second = threading.Event()

    def source() -> Iterator[pa.RecordBatch]:
        first, second = _batches(2)
        yield first
        made_second.set()
        yield second

    class Waiting(io.BytesIO):
        def write(self, data: object, /) -> int:
            assert made_second.wait(timeout=30), "the second block is made only after the first was written"
            return super().write(data)  # type: ignore[arg-type]

    assert write(source(), SCHEMA, Waiting(), "csv") == 2000


def test_a_result_without_columns_has_no_parquet_file() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    with pytest.raises(UsageError, match="jsonl"):
        write(iter([batch]), batch.schema, io.BytesIO(), "parquet")
    sink = io.BytesIO()
    assert write(iter([batch]), batch.schema, sink, "arrow") == 1
    assert pa.ipc.open_file(sink.getvalue()).read_all().num_rows == 1


def test_an_extension_that_says_no_form_is_refused_with_those_that_do(tmp_path: Path) -> None:
    assert [form_of(f"a.b/x.{form.upper()}") for form in FORMS] == list(FORMS)
    for name in ("x.xlsx", "x", ".parquet", "x.parquet/y"):
        with pytest.raises(UsageError, match=r"\.parquet \.csv \.jsonl \.arrow") as caught:
            form_of(name)
        assert name in str(caught.value)
    assert vars(writing)["Form"] is Form
