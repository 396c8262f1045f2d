"""Read the columns of change types in flat formats: words and whole numbers.

Every value is checked; errors name the row and the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from dynq_cli.io.logs.columns import null_mask, texts, typed
from dynq_cli.io.logs.formats.log_format import Rows
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import INT64
from dynq_cli.values.convert import CodeError, convert

_UNKNOWN = -2
_FLAGS = {"true": 1, "false": 0, "t": 1, "f": 0}


def words(
    rows: Rows, name: str, meanings: Mapping[str, int], *, absent: int | None = None, hint: str = ""
) -> NDArray[np.int8]:
    """Map the word of each row, in any case, by `meanings`; NULL becomes `absent`, or is refused.

    The error for an unknown word lists the words of `meanings`. O(rows), with Python only for the distinct words.
    """
    coded = _coded(rows, name)
    lower = {word.lower(): kind for word, kind in meanings.items()}
    means = [lower.get(str(word).lower(), _UNKNOWN) for word in coded.dictionary.to_pylist()]
    indices = coded.indices.cast(pa.int64()).fill_null(len(means)).to_numpy(zero_copy_only=False)
    kinds: NDArray[np.int8] = np.array([*means, _UNKNOWN if absent is None else absent], np.int8)[indices]
    wrong = kinds == _UNKNOWN
    if wrong.any():
        row = int(wrong.argmax())
        word = coded[row].as_py()
        known = ", ".join(meanings)
        said = "NULL" if word is None else shown(str(word))
        raise rows.rejected(row, name, f"{said} is not one of {known}", hint)
    return kinds


def _coded(rows: Rows, name: str) -> pa.DictionaryArray:
    column = rows.columns[name]
    if isinstance(column, pa.DictionaryArray):
        return column
    try:
        return texts(column).dictionary_encode()
    except CodeError as error:
        raise rows.rejected(error.row, name, error.reason) from None


def numbers(rows: Rows, name: str, *, absent: int | None = None) -> NDArray[np.int64]:
    """Return the whole number of each row; NULL becomes `absent`, or is refused."""
    column = rows.columns[name]
    nulls = null_mask(column)
    if nulls.any() and absent is None:
        raise rows.rejected(int(nulls.argmax()), name, "NULL where a whole number has to be")
    try:
        values = convert(typed(column, INT64, is_text=rows.is_text), INT64)
    except CodeError as error:
        raise rows.rejected(error.row, name, error.reason) from None
    found: NDArray[np.int64] = values.fill_null(absent or 0).to_numpy(zero_copy_only=False)
    return found


def flags(rows: Rows, name: str) -> NDArray[np.bool_]:
    """Return the flag of each row, a boolean or its text; NULL is false."""
    column = rows.columns[name]
    if isinstance(column, list):
        rows = replace(rows, columns={name: [str(v).lower() if isinstance(v, bool) else v for v in column]})
    elif pt.is_boolean(column.type):
        rows = replace(rows, columns={name: column.cast(pa.string())})
    flagged: NDArray[np.bool_] = words(rows, name, _FLAGS, absent=0) == 1
    return flagged


def copies(rows: Rows) -> NDArray[np.int64] | None:
    """Return `_count` of each row, 1 for NULL; None if the file does not have it."""
    if "_count" not in rows.columns:
        return None
    counts = numbers(rows, "_count", absent=1)
    wrong = counts < 1
    if wrong.any():
        row = int(wrong.argmax())
        hint = "write 1 or more; what goes away is a delete"
        raise rows.rejected(row, "_count", f"{counts[row]} copies", hint)
    return counts
