"""Data of other libraries as Arrow tables: pandas, polars, and whatever speaks the Arrow C data interface.

    table_of(frame) = its columns by name, as Arrow
    whole_numbers(column, declared) = doubles as integers, where nothing is lost

pandas keeps an integer column with missing values as doubles with NaN. So whole doubles are taken for columns that are
declared as integers or decimals, and NaN is NULL where such a column allows NULL. In any other column NaN stays NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.engine.ingest import RowError
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.spec.model import Column

# Up to here a floating type holds every whole number; beyond, what it holds may have been rounded.
_EXACT = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}


def table_of(data: Any) -> pa.Table:
    """A table of what `apply` may be given. UsageError if it is none; RejectedError if Arrow cannot hold a column."""
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
        f"changes are an Arrow table, a pandas or polars frame, or such by relation, not {type(data).__name__}"
    )


def _of_pandas(frame: Any) -> pa.Table:
    """Arrow reads NaN as NULL in frames of pandas; in columns of numpy's floats it stays a value here."""
    table = pa.Table.from_pandas(frame)
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if isinstance(dtype, np.dtype) and dtype.kind == "f":
            at = table.schema.get_field_index(str(name))
            table = table.set_column(at, str(name), pa.array(frame[name].to_numpy(), from_pandas=False))
    periods = [f.name for f in table.schema if getattr(f.type, "extension_name", "") == "pandas.period"]
    if periods:
        raise RejectedError(f"column {periods[0]}: no type of the spec holds periods of pandas")
    return table


def whole_numbers(column: pa.ChunkedArray, declared: Column) -> pa.ChunkedArray:
    """Floats as integers, for a column that is declared integer or decimal; any other column as it is.

    RowError at the first that is not whole, or so large that it may have been rounded. O(rows).
    """
    kind = declared.type
    if not pt.is_floating(column.type) or not (kind.is_integer or kind.name == "decimal"):
        return column
    numbers = column.cast(pa.float64()).combine_chunks()
    absent = np.asarray(numbers.is_null())
    values = np.where(absent, 0.0, numbers.fill_null(0.0).to_numpy(zero_copy_only=False))
    if declared.nullable and kind.is_integer:
        absent = absent | np.isnan(values)
        values = np.where(absent, 0.0, values)
    most = _EXACT[column.type.bit_width]
    with np.errstate(invalid="ignore"):
        wrong = ~((np.floor(values) == values) & (np.abs(values) <= most))
    if wrong.any():
        row = int(wrong.argmax())
        is_large = np.isfinite(values[row]) and abs(values[row]) > most
        reason = f"may have been rounded: a {column.type} is exact up to {int(most)}" if is_large else "is not whole"
        raise RowError(row, declared.name, f"{values[row]} {reason}, and the column is {kind}")
    return pa.chunked_array([pa.array(values.astype(np.int64), mask=absent)])
