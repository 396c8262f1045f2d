"""Conditions → pieces: constants, filters of one table, links between two.

A condition is first taken apart into conjuncts (NOT is pushed inwards, which SQL's three values
allow), then each conjunct into pieces. What is neither is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from dynq_cli.query.sql.allow import COMPARISONS
from dynq_cli.query.sql.context import Context, bare, tables_of
from dynq_cli.query.sql.join_comparisons import Link, link, null_safe_link

_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
}


@dataclass(frozen=True)
class Constant:
    """A condition without columns."""

    node: exp.Expr


@dataclass(frozen=True)
class Filter:
    """A condition on the rows of one table."""

    table: int
    node: exp.Expr


Piece = Constant | Filter | Link


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that all have to hold."""
    inner = bare(node)
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.left)
        yield from conjuncts(inner.right)
    elif isinstance(inner, exp.Not):
        yield from _negated(bare(inner.this), inner)
    else:
        yield inner


def _negated(inner: exp.Expr, whole: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(inner, exp.Not):
        yield from conjuncts(inner.this)
    elif isinstance(inner, exp.Or):
        for side in (inner.left, inner.right):
            yield from _negated(bare(side), exp.Not(this=side.copy()))
    elif type(inner) in _NEGATED and not isinstance(inner.args["expression"], exp.Any | exp.All):
        yield _NEGATED[type(inner)](this=inner.this.copy(), expression=inner.args["expression"].copy())
    else:
        yield whole


def pieces(context: Context, node: exp.Expr) -> Iterator[Piece]:
    """The pieces of one resolved conjunct."""
    tables = tables_of(node)
    if not tables:
        yield Constant(node)
    elif len(tables) == 1:
        yield Filter(tables[0], node)
    elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
        value = node.this
        yield from pieces(context, exp.GTE(this=value.copy(), expression=node.args["low"].copy()))
        yield from pieces(context, exp.LTE(this=value.copy(), expression=node.args["high"].copy()))
    elif isinstance(node, exp.EQ) and isinstance(bare(node.left), exp.Tuple):
        yield from _row_equality(context, node)
    elif isinstance(node, exp.In) and len(node.expressions) == 1:
        yield from pieces(context, exp.EQ(this=node.this.copy(), expression=node.expressions[0].copy()))
    elif type(node) in COMPARISONS:
        yield link(context, node)
    elif isinstance(node, exp.NullSafeEQ) and (same := null_safe_link(context, node)) is not None:
        yield same
    else:
        raise _neither(context, node, tables)


def _row_equality(context: Context, node: exp.EQ) -> Iterator[Piece]:
    left, right = bare(node.left), bare(node.right)
    if not isinstance(right, exp.Tuple) or len(left.expressions) != len(right.expressions):
        raise context.refuse(node, "the two rows have different numbers of values", "give both the same number")
    if any(context.column(c).nullable for c in node.find_all(exp.Column)):
        message = "DuckDB lets NULL equal NULL when it compares rows, and NULL never joins here"
        raise context.refuse(node, message, "compare the columns one by one: a.x = b.x AND a.y = b.y")
    for a, b in zip(left.expressions, right.expressions, strict=True):
        yield from pieces(context, exp.EQ(this=a.copy(), expression=b.copy()))


def _neither(context: Context, node: exp.Expr, tables: list[int]) -> Exception:
    named = " and ".join(context.tables[t].alias for t in tables)
    if isinstance(node, exp.Or):
        message = f"this OR is over columns of {named}, and only conditions of one table may be joined by OR"
        return context.refuse(node, message, "write a UNION of two SELECTs, one for each side")
    message = f"this condition reads columns of {named}, and is no comparison of the two"
    hint = "between tables there are = != < <= > >= with a constant added, as in a.x < b.y + 5"
    return context.refuse(node, message, hint)
