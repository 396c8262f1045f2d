"""`apply` takes frames of pandas and polars, and other Arrow data; what would lose something is refused by row."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.session.apply_logs import apply_logs
from dynq_cli.storage.state import State

SPEC = """\
version: 1
relations:
  R: {columns: {i: "int64?", k: int8, d: "decimal(9,2)?", s: "string?", f: "float64?", moment: "timestamp?"}}
queries:
  q: {sql: "SELECT i, k, d, s, f, moment FROM R"}
"""
ROW = {"i": 1, "k": 2, "d": Decimal("3.00"), "s": "a", "f": 0.5, "moment": datetime(2024, 2, 29, 1, 2, 3, 4)}
PLAIN: dict[str, list[Any]] = {"i": [1], "k": [2], "d": [3], "s": ["a"], "f": [0.5], "moment": [ROW["moment"]]}


@pytest.fixture
def view(tmp_path: Path) -> State:
    (tmp_path / "spec.yaml").write_text(SPEC)
    return dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state")


def rows(view: State) -> list[dict[str, Any]]:
    return [{n: v for n, v in row.items() if n != "_count"} for b in view.enum() for row in b.to_pylist()]


TABLE = pa.table(PLAIN)
FRAMES = {
    "pandas": pd.DataFrame(PLAIN),
    "pandas floats": pd.DataFrame(PLAIN).astype({"i": float, "k": "float32", "d": float}),
    "pandas types": pd.DataFrame(PLAIN).astype({"i": "Int64", "s": "category"}),
    "pandas strings": pd.DataFrame(PLAIN).astype({"s": "string"}),
    "pandas index": pd.DataFrame(PLAIN).set_index("i"),
    "polars": pl.DataFrame(PLAIN),
    "batch": TABLE.to_batches()[0],
    "reader": TABLE.to_reader(),
    "by relation": {"R": pd.DataFrame(PLAIN)},
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_of_frame_is_taken(view: State, name: str) -> None:
    assert view.apply(FRAMES[name]) == 1
    assert rows(view) == [ROW]


def test_nan_is_null_in_an_integer_column_and_a_number_in_a_float_column(view: State) -> None:
    view.apply(pd.DataFrame({**PLAIN, "i": [float("nan")], "f": [float("nan")], "s": [None]}))
    (row,) = rows(view)
    assert (row["i"], row["s"]) == (None, None) and row["f"] != row["f"]


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("i", [1.0, 1.5], "row 2, column i: 1.5 is not whole"),
        ("k", [1.0, float("nan")], "row 2, column k: nan is not whole"),
        ("i", [1.0, 2.0**60], "row 2, column i: .* may have been rounded"),
        ("k", [1.0, 300.0], "row 2, column k: 300.0 does not fit int8"),
        ("d", [2.5, 0.125], r"row 2, column d: 0.125 does not fit decimal\(9,2\)"),
        ("d", [0.1, 0.1 + 0.2], r"row 2, column d: 0.3.*4 may have been rounded: a double keeps 15 digits"),
        ("d", [0.1, 2.0**60], r"row 2, column d: .* may have been rounded: a double is exact up to"),
        ("d", [0.1, 1e-7], r"row 2, column d: 1e-07 does not fit decimal\(9,2\)"),
        ("d", [0.1, float("nan")], r"row 2, column d: nan is not whole"),
        ("moment", pd.to_timedelta([1, 2]), "column moment: a column of type duration"),
        ("moment", pd.to_datetime([0, 1]), "row 2, column moment: .* does not fit timestamp"),
    ],
)
def test_what_would_lose_something_is_refused(view: State, column: str, values: Any, said: str) -> None:
    frame = pd.DataFrame({name: value * 2 for name, value in PLAIN.items()})
    frame[column] = values
    with pytest.raises(RejectedError, match=said):
        view.apply(frame)
    assert view.version == 0


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_files_take_the_doubles_that_frames_do(view: State, tmp_path: Path, kind: pa.DataType) -> None:
    values = {"i": [7.0, None, float("nan")], "k": [1.0, -2.0, 3.0], "d": [0.1, 2.5, -1234.25]}
    table = pa.table({n: pa.array(v, kind, from_pandas=False) for n, v in values.items()} | _others(3))
    pq.write_table(table, tmp_path / "R.parquet")
    with pa.ipc.new_file(tmp_path / "R.arrow", table.schema) as file:
        file.write_table(table)
    view.apply(table)
    taken = rows(view)
    for name in ("R.parquet", "R.arrow"):
        apply_logs(view, [str(tmp_path / name)])
    assert sorted(map(str, rows(view))) == sorted(map(str, taken))
    assert [count for batch in view.enum() for count in batch["_count"].to_pylist()] == [3, 3, 3]
    assert {r["k"]: (str(r["d"]), r["i"]) for r in taken} == {1: ("0.10", 7), -2: ("2.50", None), 3: ("-1234.25", None)}
    bad = table.set_column(2, "d", pa.array([0.1, 0.1, 0.125], kind))
    pq.write_table(bad, tmp_path / "R.2.parquet")
    with pytest.raises(RejectedError, match=r"R.2.parquet: row 3, column d: 0.125 does not fit"):
        apply_logs(view, [str(tmp_path / "R.2.parquet")])


def _others(many: int) -> dict[str, pa.Array]:
    kinds = {"s": pa.string(), "f": pa.float64(), "moment": pa.timestamp("us")}
    return {name: pa.nulls(many, kind) for name, kind in kinds.items()}


def test_what_is_no_table_is_a_usage_error(view: State) -> None:
    with pytest.raises(UsageError, match="not list"):
        view.apply([1, 2])
