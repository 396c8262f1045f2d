"""Convert the columns of a file to the types of the spec, exactly; and helpers for formats.

    typed(column, kind)[i] = column[i]   for every row i, or `CodeError` names the first row that cannot be converted

Arrow and Parquet values keep their type if the engine accepts it. JSON values: numbers or strings for integers,
decimals and floats (`"NaN"`, `"Infinity"`), `true` and `false` for bool, strings for all other types; 1.0 is an
integer, 1.5 is not. Texts of a CSV and strings of JSON are parsed by `texts`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from dynq_cli.io.logs import texts as text_rules
from dynq_cli.io.logs.model import RawColumn
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import CodeError, arrow_type, convert

_JSON_NAMES: dict[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    str: "a string",
    dict: "an object",
    list: "a list",
}
_LONGEST_INTEGER = 40  # digits: more than any type holds
_TEXT_TYPES = (pt.is_string, pt.is_large_string, pt.is_string_view)


def typed(column: RawColumn, kind: Type, *, is_text: bool) -> pa.Array:
    """Convert a column to an Arrow type that `engine.codes.encode` accepts for `kind`.

    With `is_text` the values are texts to parse, as in a CSV. O(bytes); no copy if the type is right already.
    """
    if isinstance(column, list):
        return _from_json(column, kind)
    if is_text:
        return text_rules.parse(column, kind)
    plain = column.type.value_type if pt.is_dictionary(column.type) else column.type
    # A time of the right type may still be outside the day.
    is_right = plain == arrow_type(kind) and kind.name != "time"
    return column if is_right else convert(column, kind)


def texts(column: RawColumn) -> pa.StringArray:
    """Return the texts of a column in any encoding; CodeError if it does not hold texts."""
    if isinstance(column, list):
        return _strings(column, "a text")
    array = _decoded(column)
    if pt.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    if not any(is_text(array.type) for is_text in _TEXT_TYPES):
        raise CodeError(0, f"a column of type {array.type} holds no texts")
    return array.cast(pa.string())


def fields(column: RawColumn) -> dict[str, RawColumn] | None:
    """Return the fields of a column of structs or JSON objects, NULL for NULL structs; None for other columns."""
    if isinstance(column, list):
        if not all(value is None or isinstance(value, dict) for value in column):
            return None
        names = dict.fromkeys(name for value in column if value is not None for name in value)
        return {name: [None if value is None else value.get(name) for value in column] for name in names}
    if not pt.is_struct(column.type):
        return None
    return dict(zip((field.name for field in column.type), column.flatten(), strict=True))


def take(column: RawColumn, indices: NDArray[np.int64]) -> RawColumn:
    """Select the rows at `indices`, in that order."""
    if isinstance(column, list):
        return [column[i] for i in indices.tolist()]
    return column.take(pa.array(indices))


def null_mask(column: RawColumn) -> NDArray[np.bool_]:
    """Return which rows are NULL."""
    if isinstance(column, list):
        return np.fromiter((value is None for value in column), bool, len(column))
    if pt.is_dictionary(column.type) and column.dictionary.null_count == 0:
        column = column.indices
    mask: NDArray[np.bool_] = _decoded(column).is_null().to_numpy(zero_copy_only=False)
    return mask


def _decoded(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        return _decoded(array.storage)
    if pt.is_dictionary(array.type):
        return _decoded(array.dictionary_decode())
    if pt.is_run_end_encoded(array.type):
        return _decoded(pc.run_end_decode(array))
    return array


def _from_json(values: list[Any], kind: Type) -> pa.Array:
    kinds = set(map(type, values)) - {type(None)}
    if kind.name == "bool":
        _expect(values, {bool}, kinds, "true or false")
        return pa.array(values, pa.bool_())
    if not kind.is_numeric:
        return text_rules.parse(_strings(values, _expected(kind)), kind)
    _expect(values, {int, float, Decimal, str}, kinds, f"a number for {kind}")
    if kinds <= {int} and kind.is_integer:
        try:
            return pa.array(values, arrow_type(kind))
        except (pa.ArrowInvalid, OverflowError):
            pass  # the rules of texts say which one
    spell = _spell_integer if kind.is_integer else str
    spelled = [value if value is None or type(value) is str else spell(value) for value in values]
    return text_rules.parse(_strings(spelled, "a number"), kind)


def _expected(kind: Type) -> str:
    return "a string" if kind.name == "string" else f"a string with a {kind}"


def _spell_integer(value: Any) -> str:
    """Return the digits of a whole number, also of 1.0; any other value as text, which the parser refuses."""
    if isinstance(value, Decimal) and value.adjusted() < _LONGEST_INTEGER and value == value.to_integral_value():
        return str(int(value))
    return str(value)


def _expect(values: list[Any], allowed: set[type], found: set[type], expected: str) -> None:
    if found <= allowed:
        return
    for row, value in enumerate(values):
        if value is not None and type(value) not in allowed:
            said = shown(value) if isinstance(value, str) else _JSON_NAMES[type(value)]
            raise CodeError(row, f"expected {expected}, found {said}")


def _strings(values: list[Any], expected: str) -> pa.StringArray:
    _expect(values, {str}, set(map(type, values)) - {type(None)}, expected)
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        for row, value in enumerate(values):
            if value is not None and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
                raise CodeError(row, f"{shown(value)} has half a surrogate pair, which is no character") from None
        raise
