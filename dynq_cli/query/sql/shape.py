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


def aggregates_of(node: exp.Expr) -> list[exp.Expr]:
    """The calls of aggregates of groups in a node, with their FILTER; not those inside of others, or of subqueries."""
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Filter) or (is_aggregate(node) and not _is_over_window(node)):
        return [node]
    return [call for child in list(node.iter_expressions()) for call in aggregates_of(child)]


def has_aggregate(node: exp.Expr) -> bool:
    """Whether a node has an aggregate of groups; what stands before OVER is none."""
    return any(is_aggregate(n) and not _is_over_window(n) for n in outside_queries(node))


def _is_over_window(call: exp.Expr) -> bool:
    around = call.parent
    while isinstance(around, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and around.this is call:
        call, around = around, around.parent
    return isinstance(around, exp.Window) and around.this is call


def has_window(node: exp.Expr) -> bool:
    """Whether a node, or a SELECT outside of the queries in it, calls a window function."""
    if isinstance(node, exp.Select):
        order, qualify = node.args.get("order"), node.args.get("qualify")
        parts = [*node.expressions, *(order.expressions if order is not None else ())]
        return any(map(has_window, [*parts, *([qualify.this] if qualify is not None else [])]))
    return any(isinstance(n, exp.Window) for n in outside_queries(node))


def window_parts(window: exp.Window) -> Iterator[exp.Expr]:
    """The expressions that a window function looks at: its arguments, its filter, its partition and its order."""
    call = window.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        if isinstance(call, exp.Filter):
            yield call.expression.this
        call = call.this
    yield from _arguments(call)
    yield from window.args.get("partition_by") or ()
    order = window.args.get("order")
    for key in order.expressions if order is not None else ():
        yield key.this


def _arguments(call: exp.Expr) -> Iterator[exp.Expr]:
    """The values that a call reads, those in its DISTINCT and its ORDER BY among them."""
    for part in list(call.iter_expressions()):
        if isinstance(part, exp.Distinct | exp.Order | exp.Ordered) or isinstance(call, exp.WithinGroup):
            yield from _arguments(part)
        else:
            yield part


def has_limit(node: exp.Expr) -> bool:
    return node.args.get("limit") is not None or node.args.get("offset") is not None


def is_by_places(node: exp.Expr) -> bool:
    """Whether the places of rows decide which rows a query has, or what they hold."""
    if has_limit(node):
        return True
    if not isinstance(node, exp.Select):
        return False
    distinct = node.args.get("distinct")
    is_on = distinct is not None and distinct.args.get("on") is not None
    return is_on or node.args.get("qualify") is not None or has_window(node)


def has_query(node: exp.Expr) -> bool:
    return any(isinstance(n, exp.Query) for n in outside_queries(node))


def is_aggregating(select: exp.Select) -> bool:
    """Whether rows of the result are groups."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(has_aggregate(item) for item in select.expressions)


def is_one_row(node: exp.Expr) -> bool:
    """Whether a query has at most one row: of aggregates over all it reads, or of derived tables with one row each."""
    if not isinstance(node, exp.Select) or has_window(node):
        return False
    group, distinct = node.args.get("group"), node.args.get("distinct")
    if group is not None or (distinct is not None and distinct.args.get("on") is not None):
        return False
    if is_aggregating(node):
        return True
    start, joins = node.args.get("from_"), node.args.get("joins") or ()
    if start is None or node.args.get("laterals") or any(join.args.get("side") for join in joins):
        return False
    tables = [start.this, *(join.this for join in joins)]
    return all(isinstance(t, exp.Subquery) and not t.args.get("joins") and is_one_row(unwrapped(t)) for t in tables)


def is_distinct(select: exp.Select) -> bool:
    """Whether rows of the result are distinct; DISTINCT ON keeps the copies of what it keeps."""
    distinct = select.args.get("distinct")
    return distinct is not None and distinct.args.get("on") is None
