"""Resolved expressions of one table → `Scalar`s: DuckDB's SQL with quoted, unqualified columns.

The text comes from sqlglot's generator, so that equal scalars have equal text; DuckDB gives the
type, and with it a second opinion on whether the expression makes sense.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.scalar import ScalarError, column_scalar, type_of_expression
from dynq_cli.query.sql.allow import may_be_null
from dynq_cli.query.sql.context import Context, bare, plain_name
from dynq_cli.query.sql.strings import check_strings
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import BOOL, Type

_NO_FUNCTION = re.compile(r"No function matches the given name and argument types '(.+?)\((.*?)\)'")
_CLOSED = (exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Func, exp.Paren)


def is_closed(node: exp.Expr) -> bool:
    """Whether the text of a node can stand beside any operator without parentheses."""
    return isinstance(node, _CLOSED) and not isinstance(node, exp.Binary)


def closed(node: exp.Expr) -> exp.Expr:
    return node if is_closed(node) else exp.Paren(this=node)


def text_of(node: exp.Expr) -> str:
    """DuckDB's SQL for a resolved expression, columns quoted and without their table."""
    copy = node.copy()
    for column in copy.find_all(exp.Column):
        column.set("table", None)
    return copy.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)


@lru_cache(maxsize=4096)
def _typed(sql: str, columns: tuple[Column, ...]) -> Type:
    return type_of_expression(sql, columns)


def typed(context: Context, sql: str, columns: tuple[Column, ...], node: exp.Expr) -> Type:
    """The type of `sql`; what DuckDB says against it becomes a problem at `node`."""
    try:
        return _typed(sql, columns)
    except ScalarError as error:
        message = str(error).rstrip(".!")
        hint = "write an expression that DuckDB accepts over the columns' types"
        unknown = _NO_FUNCTION.match(message)
        if unknown is not None:
            message = f"{unknown[1]} does not take ({unknown[2].replace('_LITERAL', '').lower()})"
            hint = "cast the arguments, or use another function"
        if "no counterpart" in message:
            hint = "cast it to one of dynq's types"
        raise context.refuse(node, message, hint) from None


def scalar(context: Context, node: exp.Expr) -> Scalar:
    """The scalar of an expression over at most one table, safe to stand inside a larger expression."""
    inner = bare(node)
    if isinstance(inner, exp.Column):
        return column_scalar(context.column(inner))
    return _scalar(context, closed(inner), node)


def condition(context: Context, node: exp.Expr) -> Scalar:
    """The scalar of a filter; only OR keeps its parentheses, since filters are joined by AND."""
    inner = bare(node)
    made = _scalar(context, exp.Paren(this=inner) if isinstance(inner, exp.Or) else inner, node)
    if made.type != BOOL:
        hint = "write a condition, such as a comparison"
        raise context.refuse(node, f"{made.sql} is {made.type}, not a condition", hint)
    return made


def _scalar(context: Context, node: exp.Expr, at: exp.Expr) -> Scalar:
    check_strings(context, node)
    columns = {c.name: context.column(c) for c in node.find_all(exp.Column)}
    names = tuple(sorted(columns))
    sql = text_of(node)
    found = typed(context, sql, tuple(columns[n] for n in names), at)
    return Scalar(sql, found, may_be_null(node, lambda c: context.column(c).nullable), names)


def name_of(node: exp.Expr) -> str:
    """The variable name an expression would like to have."""
    inner = bare(node)
    return inner.name if isinstance(inner, exp.Column) else plain_name(text_of(inner))
