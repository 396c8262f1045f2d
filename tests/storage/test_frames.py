"""`apply` takes frames of pandas and polars, and other Arrow data; what would lose something is refused by row."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.storage.state import State

SPEC = """\
version: 1
relations:
  R: {columns: {i: "int64?", k: int8, d: "decimal(9,2)?", s: "string?", f: "float64?", moment: "timestamp?"}}
queries:
  q: {sql: "SELECT i, k, d, s, f, moment FROM R"}
"""
ROW = {"i": 1, "k": 2, "d": Decimal("3.00"), "s": "a", "f": 0.5, "moment": datetime(2024, 2, 29, 1, 2, 3, 4)}
PLAIN = {"i": [1], "k": [2], "d": [3], "s": ["a"], "f": [0.5], "moment": [ROW["moment"]]}


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
        ("k", [1.0, 300.0], "row 2, column k: 300 does not fit int8"),
        ("d", [1.0, 0.1], "row 2, column d: 0.1 is not whole"),
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


def test_what_is_no_table_is_a_usage_error(view: State) -> None:
    with pytest.raises(UsageError, match="not list"):
        view.apply([1, 2])
