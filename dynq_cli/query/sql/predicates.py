"""Conditions → pieces: constants, filters of one table, links between two, and mixed ones.

A condition is first taken apart into conjuncts: NOT is pushed inwards, and what all sides of an OR have in common is
taken out, which SQL's three values allow. Then each conjunct is taken apart into pieces. One that is over several
tables and no comparison of two is a `Mixed` piece, beside what it says of single tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from dynq_cli.query.sql.allow import COMPARISONS
from dynq_cli.query.sql.context import Context, bare, key_of, tables_of
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


@dataclass(frozen=True)
class Mixed:
    """Any other condition over several tables."""

    node: exp.Expr

    @property
    def tables(self) -> tuple[int, ...]:
        return tuple(tables_of(self.node))


Piece = Constant | Filter | Link | Mixed


def place_of(context: Context, piece: Piece) -> int:
    return piece.at if isinstance(piece, Link) else context.at(piece.node)


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that all have to hold."""
    inner = bare(node)
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.left)
        yield from conjuncts(inner.right)
    elif isinstance(inner, exp.Not):
        yield from _negated(bare(inner.this), inner)
    elif isinstance(inner, exp.Or):
        yield from _common(inner)
    else:
        yield inner


def _sides(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions of which one has to hold."""
    inner = bare(node)
    if isinstance(inner, exp.Or):
        yield from _sides(inner.left)
        yield from _sides(inner.right)
    else:
        yield inner


def _common(node: exp.Or) -> Iterator[exp.Expr]:
    """What all sides of an OR say, and the OR of what is left: (a AND b) OR (a AND c) is a AND (b OR c)."""
    sides = [{key_of(c): c for c in conjuncts(side)} for side in _sides(node)]
    shared = [key for key in sides[0] if all(key in side for side in sides[1:])]
    if not shared:
        yield node
        return
    yield from (sides[0][key] for key in shared)
    left = [[c for key, c in side.items() if key not in shared] for side in sides]
    if all(left):
        yield _any(exp.and_(*(c.copy() for c in side), copy=False) for side in left)


def _any(conditions: Iterable[exp.Expr]) -> exp.Expr:
    made: exp.Expr = exp.or_(*(c.copy() for c in conditions), copy=False)
    return bare(made)


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
    elif type(node) in COMPARISONS and (found := link(context, node)) is not None:
        yield found
    elif isinstance(node, exp.NullSafeEQ) and (same := null_safe_link(context, node)) is not None:
        yield same
    else:
        yield from _of_one_table(node)
        yield Mixed(node)


def _of_one_table(node: exp.Expr) -> Iterator[Filter]:
    """What an OR says of the rows of single tables: one of the conditions of its sides, where all sides have some."""
    if not isinstance(node, exp.Or):
        return
    sides = [list(conjuncts(side)) for side in _sides(node)]
    for table in tables_of(node):
        local = [[c for c in side if tables_of(c) == [table]] for side in sides]
        if all(local):
            yield Filter(table, _any(exp.and_(*(c.copy() for c in side), copy=False) for side in local))


def _row_equality(context: Context, node: exp.EQ) -> Iterator[Piece]:
    left, right = bare(node.left), bare(node.right)
    if not isinstance(right, exp.Tuple) or len(left.expressions) != len(right.expressions):
        raise context.refuse(node, "the two rows have different numbers of values", "give both the same number")
    if any(context.column(c).nullable for c in node.find_all(exp.Column)):
        # DuckDB lets NULL equal NULL when it compares rows.
        yield Mixed(node)
        return
    for a, b in zip(left.expressions, right.expressions, strict=True):
        yield from pieces(context, exp.EQ(this=a.copy(), expression=b.copy()))
