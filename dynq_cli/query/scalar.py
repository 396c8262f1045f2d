"""Ask DuckDB for the types of scalar SQL expressions; write the SQL of shifted and cast ones.

Expressions reach it only after the front end has checked them against its allow-list, and the database
that evaluates them is closed off from the world (`duck`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from dynq_cli.query.duck import DuckError, shared
from dynq_cli.query.normal_form import Scalar
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import BOOL, MAX_PRECISION, Type, decimal, widen

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_TYPES = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UTINYINT": "int16",
    "USMALLINT": "int32",
    "UINTEGER": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "VARCHAR": "string",
    "BLOB": "binary",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
}


_STRING_OR_NAME = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")


class ScalarError(Exception):
    """DuckDB does not accept the expression; the message is one sentence."""


def quote(name: str) -> str:
    """A column name as SQL.

    >>> quote("o_orderkey")
    '"o_orderkey"'
    """
    return '"' + name.replace('"', '""') + '"'


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """`sql` with its quoted names replaced.

    >>> renamed('"t" > 1 AND "x" = \\'"t"\\'', {"t": "a0"})
    '"a0" > 1 AND "x" = \\'"t"\\''
    """
    quoted = {quote(old): quote(new) for old, new in names.items()}
    return _STRING_OR_NAME.sub(lambda found: quoted.get(found[0], found[0]), sql)


def column_scalar(column: Column) -> Scalar:
    return Scalar(quote(column.name), column.type, column.nullable, (column.name,))


def type_of_expression(sql: str, columns: Sequence[Column]) -> Type:
    """The type DuckDB gives `sql` over `columns`. Raises ScalarError if it gives none of ours."""
    inside = ", ".join(f"CAST(NULL AS {c.type.sql}) AS {quote(c.name)}" for c in columns) or "1 AS _"
    try:
        described = shared().types(f"SELECT ({sql}) AS value FROM (SELECT {inside}) LIMIT 0")[0]
    except DuckError as error:
        raise _refused(error) from error
    found = from_duckdb(described)
    if found is None:
        raise ScalarError(f"an expression of type {described} has no counterpart among dynq's types")
    return found


def from_duckdb(name: str) -> Type | None:
    """The type that holds the values of a type of DuckDB's; None if there is none."""
    exact = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", name)
    if exact:
        return decimal(int(exact[1]), int(exact[2]))
    if name in ("HUGEINT", "UBIGINT", "UHUGEINT"):
        return decimal(20 if name == "UBIGINT" else 38, 0)
    return Type(_TYPES[name]) if name in _TYPES else None


def cast(scalar: Scalar, to: Type) -> Scalar:
    """`scalar` in the wider type `to`; integers of all widths share their codes and stay as they are."""
    if scalar.type == to or (scalar.type.is_integer and to.is_integer):
        return Scalar(scalar.sql, to, scalar.nullable, scalar.columns)
    return Scalar(f"CAST({scalar.sql} AS {to.sql})", to, scalar.nullable, scalar.columns)


def shift(scalar: Scalar, offset: Decimal) -> Scalar:
    """`scalar + offset` in the unit of its type; out of range is NULL, which joins with nothing."""
    kind = scalar.type
    if not offset:
        return scalar
    if kind.name == "date":
        return Scalar(f"TRY({scalar.sql} + {int(offset)})", kind, True, scalar.columns)
    if kind.name == "timestamp":
        return Scalar(f"TRY({scalar.sql} + to_microseconds({int(offset)}))", kind, True, scalar.columns)
    if kind.is_integer and offset == offset.to_integral_value():
        sql = f"TRY_CAST(CAST({scalar.sql} AS HUGEINT) + {int(offset)} AS BIGINT)"
        return Scalar(sql, Type("int64"), True, scalar.columns)
    if kind.is_float:
        return Scalar(f"({scalar.sql} + {offset!s}::DOUBLE)", Type("float64"), scalar.nullable, scalar.columns)
    assert kind.is_numeric
    fine = decimal_of(offset)
    exact = widen(kind, fine) or decimal(MAX_PRECISION, max(kind.scale, fine.scale))
    wide = decimal(min(exact.precision + 1, MAX_PRECISION), exact.scale)
    sql = f"CAST({scalar.sql} AS {wide.sql}) + CAST({offset:f} AS {wide.sql})"
    return Scalar(f"TRY(CAST({sql} AS {wide.sql}))", wide, True, scalar.columns)


def shifted_value(scalar: Scalar, offset: Decimal) -> Scalar:
    """`shift` for a value to join by. The smallest int64 stands for NULL and is in no column, so it is out of range."""
    made = shift(scalar, offset)
    if not offset or made.type.name != "int64":
        return made
    return Scalar(f"NULLIF({made.sql}, CAST('{-(2**63)}' AS BIGINT))", made.type, True, made.columns)


def decimal_of(value: Decimal) -> Type:
    """The narrowest decimal that holds a number."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return decimal(max(len(digits) + max(0, int(exponent)), scale, 1), scale)


def compare(left: Scalar, op: str, right: Scalar) -> Scalar:
    """A filter that compares two scalars of one source."""
    columns = tuple(sorted({*left.columns, *right.columns}))
    return Scalar(f"{left.sql} {op} {right.sql}", BOOL, left.nullable or right.nullable, columns)


def compare_shifted(left: Scalar, op: str, right: Scalar, offset: Decimal) -> Scalar:
    """A filter `left op right + offset`. A sum out of range is beyond every value, on the side of its offset."""
    shifted = shift(right, offset)
    made = compare(left, op, shifted)
    if not offset or right.type.is_float or op not in (("<", "<=", "!=") if offset > 0 else (">", ">=", "!=")):
        return made
    beyond = [f"{shifted.sql} IS NULL", f"{right.sql} IS NOT NULL", *([f"{left.sql} IS NOT NULL"] * left.nullable)]
    return Scalar(f"({made.sql} OR ({' AND '.join(beyond)}))", BOOL, made.nullable, made.columns)


def same(left: Scalar, right: Scalar) -> Scalar:
    """Whether two scalars of one source are equal, or both NULL."""
    columns = tuple(sorted({*left.columns, *right.columns}))
    return Scalar(f"{left.sql} IS NOT DISTINCT FROM {right.sql}", BOOL, False, columns)


def equal_or_null(left: Scalar, right: Scalar) -> Scalar:
    """Whether NOT IN sees `left` as a possible match of `right`, which is not NULL."""
    same = compare(left, "=", right)
    return Scalar(f"({same.sql} OR {left.sql} IS NULL)", BOOL, False, same.columns)


def not_null(scalar: Scalar) -> Scalar:
    return Scalar(f"{scalar.sql} IS NOT NULL", BOOL, False, scalar.columns)


def evaluate(table: pa.Table, expressions: Sequence[str]) -> list[pa.ChunkedArray]:
    """The value of each expression for each row of an Arrow table, in order. Raises ScalarError."""
    try:
        return list(shared().values(table, tuple(expressions)).columns)
    except DuckError as error:
        raise _refused(error) from error


def conditions_hold(table: pa.Table, conditions: Sequence[str]) -> list[NDArray[np.bool_]]:
    """Of each condition, whether it is true, for each row of an Arrow table. Raises ScalarError."""
    try:
        return shared().flags(table, tuple(conditions))
    except DuckError as error:
        raise _refused(error) from error


def _refused(error: DuckError) -> ScalarError:
    """Without the name that DuckDB gives to kinds of errors."""
    return ScalarError(re.sub(r"^[A-Za-z ]*Error:\s*", "", str(error)).strip())
