"""Every value is written so that it is read back as the same value, NULL and the empty string apart."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynq_cli.io.results.lines import csv_header, csv_lines, csv_texts, json_lines, json_texts, pieces
from tests.every_case import every_case

from .values import TYPES, as_csv, as_json, columns

FLOATS = ("float32", "float64")


def _same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@every_case("name", [n for n in TYPES if n not in FLOATS])
def test_a_value_is_written_as_python_writes_it_and_read_back_as_it_was(name: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(columns(name, max_size=12))
    def check(column: pa.Array) -> None:
        values = column.to_pylist()
        batch = pa.record_batch({"n": pa.array(range(len(column))), "v": column})
        text = (csv_header(batch.schema) + csv_lines(batch).to_pybytes()).decode()
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        assert rows == [["n", "v"], *([str(n), "" if v is None else as_csv(v)] for n, v in enumerate(values))]
        assert [t is None for t in csv_texts(column).to_pylist()] == [v is None for v in values]
        lines = json_lines(batch).to_pybytes().decode().split("\n")
        assert lines.pop() == ""
        assert [json.loads(line) for line in lines] == [{"n": n, "v": as_json(v)} for n, v in enumerate(values)]

    check()


@pytest.mark.parametrize(("name", "width"), [("float32", np.float32), ("float64", np.float64)])
def test_a_float_is_as_short_as_it_can_be_and_looks_like_one(name: str, width: type[np.floating[Any]]) -> None:
    @settings(max_examples=150, deadline=None)
    @given(columns(name, max_size=12))
    def check(column: pa.Array) -> None:
        for value, in_csv, in_json in zip(
            column.to_pylist(), csv_texts(column).to_pylist(), json_texts(column).to_pylist(), strict=True
        ):
            if value is None:
                assert (in_csv, in_json) == (None, "null")
                continue
            assert _same(float(width(in_csv)), value)
            assert _same(float(width(json.loads(in_json))), value)
            if math.isfinite(value):
                assert isinstance(json.loads(in_json), float)
                digits = sum(c.isdigit() for c in in_csv.split("e")[0].strip("-0.").replace(".", ""))
                shortest = repr(width(value).item() if width is np.float64 else width(value)).split("(")[-1]
                assert digits <= sum(c.isdigit() for c in shortest.split("e")[0])

    check()


@every_case(
    ("value", "in_csv", "in_json"),
    [
        (1.0, "1.0", "1.0"),
        (1e300, "1e+300", "1e+300"),
        (float("nan"), "NaN", '"NaN"'),
        (float("inf"), "inf", '"Infinity"'),
        (float("-inf"), "-inf", '"-Infinity"'),
        ("", '""', '""'),
        ('a"b,c', '"a""b,c"', '"a\\"b,c"'),
        ("two\nlines", '"two\nlines"', '"two\\nlines"'),
        (" a\\b ", " a\\b ", '" a\\\\b "'),
        (b"\x00\xff", "AP8=", '"AP8="'),
        (b"", '""', '""'),
        (True, "true", "true"),
    ],
)
def test_these_values_look_like_this(value: Any, in_csv: str, in_json: str) -> None:
    column = pa.array([value])
    assert (csv_texts(column).to_pylist(), json_texts(column).to_pylist()) == ([in_csv], [in_json])


@every_case(
    ("kind", "number", "text"),
    [
        (pa.date32(), 2**31 - 1, "5881580-07-11"),
        (pa.date32(), -(2**31) + 1, "-5877641-06-24"),
        (pa.date32(), 2932897, "10000-01-01"),
        (pa.date32(), -719529, "-0001-12-31"),
        (pa.timestamp("us"), 2**63 - 1, "294247-01-10T04:00:54.775807"),
        (pa.timestamp("us"), 253402300800000000, "10000-01-01T00:00:00"),
        (pa.time64("us"), 1, "00:00:00.000001"),
        (pa.time64("us"), 3_600_000_000, "01:00:00"),
    ],
)
def test_years_beyond_those_of_python_are_written_too(kind: pa.DataType, number: int, text: str) -> None:
    column = pa.array([0, number, None], pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
    assert csv_texts(column).to_pylist()[1:] == [text, None]
    assert json_texts(column).to_pylist()[1:] == [f'"{text}"', "null"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_duckdb_reads_a_csv_of_all_types_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    # DuckDB reads no base64, no NUL inside a text, and line breaks in one way per file only.
    used = {name: kind for name, kind in TYPES.items() if name != "binary"}
    many = data.draw(st.integers(0, 6))
    batch = pa.record_batch({n: data.draw(columns(n, min_size=many, max_size=many)) for n in used})
    strings = [None if s is None else s.replace("\x00", "").replace("\r", "") for s in batch["string"].to_pylist()]
    batch = batch.set_column(batch.schema.names.index("string"), "string", pa.array(strings, pa.string()))
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(csv_header(batch.schema) + csv_lines(batch).to_pybytes())
    assert _read_by_duckdb(path, list(used)) == [
        tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row.values()) for row in batch.to_pylist()
    ]


def _read_by_duckdb(path: Path, types: list[str]) -> list[tuple[Any, ...]]:
    sql = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "string": "VARCHAR"}
    sql |= {"float32": "FLOAT", "float64": "DOUBLE", "bool": "BOOLEAN"}
    named = ", ".join(f"'{t}': '{sql.get(t, t.upper())}'" for t in types)
    rows = duckdb.execute(
        f"FROM read_csv('{path}', header=true, delim=',', quote='\"', escape='\"', new_line='\\n',"
        f" nullstr='', allow_quoted_nulls=false, auto_detect=false, columns={{{named}}})"
    ).fetchall()
    return [tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows]


def test_names_of_columns_are_quoted_like_texts() -> None:
    batch = pa.record_batch({'a,"b"': [1], "": [2], "c\n": [3]})
    assert csv_header(batch.schema) == b'"a,""b""","","c\n"\n'
    assert json.loads(json_lines(batch).to_pybytes()) == {'a,"b"': 1, "": 2, "c\n": 3}


def test_rows_without_columns_are_still_rows() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert csv_header(batch.schema) + csv_lines(batch).to_pybytes() == b"\n\n\n"
    assert json_lines(batch).to_pybytes() == b"{}\n{}\n"


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()])
def test_texts_of_other_layouts_are_texts(kind: pa.DataType) -> None:
    column = pa.array(["", 'a"b', None], kind)
    assert csv_texts(column).to_pylist() == ['""', '"a""b"', None]
    assert json_texts(column).to_pylist() == ['""', '"a\\"b"', "null"]


def test_large_batches_are_cut_and_lose_nothing() -> None:
    batch = pa.record_batch({"n": range(200_000), "s": ["x" * 300] * 200_000})
    cut = list(pieces(batch))
    assert pa.Table.from_batches(cut).equals(pa.Table.from_batches([batch]))
    assert max(piece.nbytes for piece in cut) <= 32 << 20
    assert [piece.num_rows for piece in pieces(pa.record_batch({"s": ["x" * (40 << 20), "y"]}))] == [1, 1]
