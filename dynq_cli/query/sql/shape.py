"""What kind of SELECT a tree is, without resolving anything."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dynq_cli.query.sql.calls import is_aggregate


def unwrapped(node: exp.Expr) -> exp.Expr:
    """The query inside brackets that add nothing."""
    while isinstance(node, exp.Subquery) and not node.args.get("with_"):
        node = node.this
    return node


def outside_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """`node` and its parts; subqueries are given but not entered."""
    yield from node.walk(prune=lambda n: isinstance(n, exp.Query) and n is not node)


def has_aggregate(node: exp.Expr) -> bool:
    return any(is_aggregate(n) for n in outside_queries(node))


def has_query(node: exp.Expr) -> bool:
    return any(isinstance(n, exp.Query) for n in outside_queries(node))


def is_aggregating(select: exp.Select) -> bool:
    """Whether rows of the result are groups."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(has_aggregate(item) for item in select.expressions)


def is_distinct(select: exp.Select) -> bool:
    return select.args.get("distinct") is not None
