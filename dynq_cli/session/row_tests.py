"""Test the rows of a file: they come back in their order, with a last column `_count`.

    tested_file(state, "rows.parquet", "q").batches      record batches, in bounded memory

The file has the columns of the result, by the rules of change logs, and may have others, which come back as they are.
Of JSON lines, a column of anything but texts, whole numbers or booleans comes back as JSON text. A column `_count` of
the file itself is replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.engine.codes import arrow_type
from dynq_cli.engine.row_tests import RowTests
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.data_files import format_of
from dynq_cli.io.logs.chunks import read_chunks, rows_in, schema_columns
from dynq_cli.io.logs.columns import typed
from dynq_cli.io.logs.model import Chunk, LogFile, RawColumn
from dynq_cli.io.results.multiplicity import COUNT
from dynq_cli.phases import phase
from dynq_cli.query.normal_form import OutputColumn
from dynq_cli.spec.shown import shown
from dynq_cli.storage.state import State
from dynq_cli.values.convert import CodeError, convert

_JSON_TYPES: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class RowsWithCounts(NamedTuple):
    """The rows of a file with their multiplicities; an iterator, to be read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def tested_file(state: State, path: str, query: str | None = None) -> RowsWithCounts:
    """Test the rows of a file in the version in force. O(rows), where a test is O(1).

    UsageError if there is no such file, RejectedError if it is damaged, lacks a column or has a wrong value.
    """
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory\n  hint: name a file with the rows to be tested")
    file = LogFile(path, format_of(path), None)
    tests = state.row_tests(query)
    columns = tests.outputs
    names = [n for n in schema_columns(file) if n != COUNT]
    if file.format != "jsonl" or names:
        _refuse_missing(path, names, tests.columns)
    chunks = read_chunks(file)
    first = next(chunks, None)
    fields = [_field(n, first, columns) for n in dict.fromkeys([*names, *tests.columns])]
    schema = pa.schema([*fields, pa.field(COUNT, pa.int64(), False)])

    def rows() -> Iterator[pa.RecordBatch]:
        with phase(f"testing {os.path.basename(path)}", total=rows_in(file)) as testing:
            for chunk in chain([] if first is None else [first], chunks):
                yield _tested(file, chunk, tests, columns, schema)
                testing.add(chunk.rows)

    return RowsWithCounts(schema, state.read_whole(tests.views, rows()))


def _refuse_missing(path: str, names: list[str], columns: list[str]) -> None:
    missing = [c for c in columns if c not in names]
    if missing:
        listed = ", ".join(map(shown, columns))
        raise RejectedError(f"{path} has no column {shown(missing[0])}; the rows of the result have {listed}")


def _field(name: str, first: Chunk | None, columns: tuple[OutputColumn, ...]) -> pa.Field:
    known = next((c for c in columns if c.name == name), None)
    if known is not None:
        return pa.field(name, arrow_type(known.type))
    values = None if first is None else first.columns.get(name)
    if values is None:
        return pa.field(name, pa.string())
    if isinstance(values, list):
        kinds = list(set(map(type, values)) - {type(None)})
        return pa.field(name, _JSON_TYPES.get(kinds[0], pa.string()) if len(kinds) == 1 else pa.string())
    return pa.field(name, values.type.value_type if pt.is_dictionary(values.type) else values.type)


def _tested(
    file: LogFile, chunk: Chunk, tests: RowTests, columns: tuple[OutputColumn, ...], schema: pa.Schema
) -> pa.RecordBatch:
    """A chunk with its multiplicities. RejectedError names file, row and column of a wrong value."""
    arrays: dict[str, pa.Array] = {}
    kinds = {c.name: c.type for c in columns}
    for field in schema.remove(len(schema) - 1):
        values = chunk.columns.get(field.name, [None] * chunk.rows)
        try:
            if field.name in kinds:
                kind = kinds[field.name]
                is_text = file.format == "csv"
                arrays[field.name] = convert(typed(values, kind, is_text=is_text), kind).cast(field.type)
            else:
                arrays[field.name] = _as_it_is(values, field)
        except CodeError as error:
            place = f"{file.path}: row {chunk.first + error.row}, column {shown(field.name)}"
            raise RejectedError(f"{place}: {error.reason}") from None
    made = pa.RecordBatch.from_arrays([arrays[c] for c in tests.columns], tests.columns) if tests.columns else None
    bare = pa.RecordBatch.from_struct_array(pa.array([{}] * chunk.rows, pa.struct([])))
    counts = pa.array(tests.copies(bare if made is None else made))
    return pa.RecordBatch.from_arrays([*arrays.values(), counts], schema=schema)


def _as_it_is(values: RawColumn, field: pa.Field) -> pa.Array:
    if not isinstance(values, list):
        return values.dictionary_decode() if pt.is_dictionary(values.type) else values
    if pt.is_string(field.type):
        return pa.array([v if v is None or isinstance(v, str) else _json(v) for v in values], pa.string())
    wanted = next(kind for kind, arrow in _JSON_TYPES.items() if arrow == field.type)
    for row, value in enumerate(values):
        if value is not None and type(value) is not wanted:
            raise CodeError(row, f"a value of another kind than in the rows before: {_json(value)}")
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, OverflowError):
        raise CodeError(0, "a number beyond 64 bits") from None


def _json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)
