"""Strings that stand for values of other types: `d = '2020-13-01'` is found here, not at the first row.

DuckDB casts a string that is compared with a column to the column's type when it runs. Only what
it would surely refuse is refused.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from dynq_cli.query.sql.allow import COMPARISONS
from dynq_cli.query.sql.context import Context, bare
from dynq_cli.spec.types import Type

_HINTS = {
    "bool": "write TRUE or FALSE",
    "date": "write a date as '2020-02-29'",
    "timestamp": "write a timestamp as '2020-02-29 23:59:59'",
    "time": "write a time as '23:59:59'",
}


def check_strings(context: Context, node: exp.Expr) -> None:
    """Refuse strings compared with a column whose type they are no value of."""
    for part in node.walk():
        if type(part) in COMPARISONS or isinstance(part, exp.In | exp.Between):
            sides = [bare(side) for side in part.iter_expressions()]
            columns = [side for side in sides if isinstance(side, exp.Column)]
            for side in sides:
                if columns and isinstance(side, exp.Literal) and side.is_string:
                    _check(context, columns[0], side)


def _check(context: Context, column: exp.Column, literal: exp.Literal) -> None:
    kind = context.column(column).type
    if not _readable(kind, literal.this.strip()):
        hint = _HINTS.get(kind.name, "write a number")
        raise context.refuse(literal, f"'{literal.this}' is no {kind}, the type of {column.name}", hint)


def _readable(kind: Type, text: str) -> bool:
    if kind.is_numeric:
        try:
            Decimal(text.replace("_", ""))
        except InvalidOperation:
            return False
        return True
    if kind.name in ("date", "timestamp"):
        found = re.match(r"(\d+)[-/ \\](\d+)[-/ \\](\d+)", text)
        if found is None:
            return text.lower() in ("infinity", "-infinity", "epoch")
        try:
            date(min(max(int(found[1]), 1), 9999), int(found[2]), int(found[3]))
        except ValueError:
            return False
    if kind.name == "time":
        return re.match(r"\d{1,2}:\d{2}", text) is not None
    if kind.name == "bool":
        return text.lower() in ("true", "false", "t", "f", "1", "0", "yes", "no", "y", "n")
    return True
