"""`column = literal` where the literal is exactly a value of the column's type."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.sql.constants import number
from dynq_cli.query.sql.context import Context, bare
from dynq_cli.spec.types import Type

_RANGES = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}


def equals_literal(context: Context, node: exp.Expr) -> tuple[exp.Column, Scalar] | None:
    """The column and the literal of `column = literal`, or None if it is not of that form."""
    if not isinstance(node, exp.EQ):
        return None
    for side, other in ((node.left, node.right), (node.right, node.left)):
        column = bare(side)
        if isinstance(column, exp.Column):
            kind = context.column(column).type
            text = _literal(bare(other), kind)
            if text is not None:
                return column, Scalar(text, kind, False, ())
    return None


def _literal(node: exp.Expr, kind: Type) -> str | None:
    """The literal as SQL if it is a value of `kind`."""
    if kind.is_integer or kind.name == "decimal":
        value = number(node)
        return None if value is None or not _fits(value, kind) else f"{value:f}"
    if kind.name == "bool":
        return str(node.this).upper() if isinstance(node, exp.Boolean) else None
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        named = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPNTZ": "timestamp", "VARCHAR": "string"}
        if named.get(node.to.this.name) != kind.name:
            return None
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    if kind.name == "string":
        return node.sql(dialect="duckdb")
    if kind.name == "date":
        day = _read(date, node.this)
        return None if day is None else f"CAST('{day.isoformat()}' AS DATE)"
    if kind.name == "timestamp":
        moment = _read(datetime, node.this)
        if moment is not None and isinstance(moment, datetime) and moment.tzinfo is None:
            return f"CAST('{moment.isoformat(sep=' ')}' AS TIMESTAMP)"
    return None


def _read(kind: type[date], text: str) -> date | None:
    # Python also reads forms such as 20200101 and 2020-W01-1, which DuckDB does not.
    if len(text) < 10 or text[4] != "-" or text[7] != "-":
        return None
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return None


def _fits(value: Decimal, kind: Type) -> bool:
    if kind.is_integer:
        bound = _RANGES[kind.name]
        return value == value.to_integral_value() and -bound <= value < bound
    scaled = value.scaleb(kind.scale)
    return scaled == scaled.to_integral_value() and abs(scaled) < 10**kind.precision
