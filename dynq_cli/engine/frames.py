"""Convert frames of other libraries to Arrow: pandas, polars, and all that support the Arrow C data interface.

    table_of(frame) = its columns by name, as Arrow
    exact_numbers(column, declared) = doubles as integers or decimals, if nothing is lost

pandas stores an integer column with missing values as doubles with NaN. So doubles are accepted for columns declared as
integers or decimals, if the conversion is exact (`values.convert`). NaN becomes NULL if the column is a nullable
integer; in any other column NaN stays NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.engine.ingest import RowError
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.spec.model import Column
from dynq_cli.values.convert import CodeError, convert, nan_as_null


def table_of(data: Any) -> pa.Table:
    """Convert to an Arrow table. UsageError for an unsupported type; RejectedError if Arrow cannot hold a column."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
            return _of_pandas(data)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise RejectedError(f"this {type(data).__name__} is no Arrow table: {error}") from None
    raise UsageError(
        f"changes are an Arrow table, a pandas or polars frame, or a dict of them, not {type(data).__name__}"
    )


def _of_pandas(frame: Any) -> pa.Table:
    """Convert a pandas frame; keep NaN in columns of numpy floats, where Arrow would make it NULL."""
    table = pa.Table.from_pandas(frame)
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if isinstance(dtype, np.dtype) and dtype.kind == "f":
            at = table.schema.get_field_index(str(name))
            table = table.set_column(at, str(name), pa.array(frame[name].to_numpy(), from_pandas=False))
    periods = [f.name for f in table.schema if getattr(f.type, "extension_name", "") == "pandas.period"]
    if periods:
        raise RejectedError(f"column {periods[0]}: no type of the spec holds pandas periods")
    return table


def exact_numbers(column: pa.ChunkedArray, declared: Column) -> pa.ChunkedArray:
    """Convert floats to the declared integer or decimal type; return any other column as it is.

    RowError at the first number that does not fit, or that may have been rounded. O(rows).
    """
    kind = declared.type
    if not pt.is_floating(column.type) or not (kind.is_integer or kind.name == "decimal"):
        return column
    try:
        numbers = nan_as_null(column.combine_chunks(), kind, nullable=declared.nullable)
        return pa.chunked_array([convert(numbers, kind)])
    except CodeError as error:
        raise RowError(error.row, declared.name, error.reason) from None
