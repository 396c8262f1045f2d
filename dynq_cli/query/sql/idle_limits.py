"""LIMIT of a query that has one row at most: it leaves out nothing, so no order has to say which row comes first."""

from __future__ import annotations

from sqlglot import exp

from dynq_cli.query.sql.shape import is_aggregating, unwrapped


def drop_idle_limits(tree: exp.Expr) -> None:
    """Drop each LIMIT of one row or more, without OFFSET, from a SELECT that has one row at most."""
    for select in tree.find_all(exp.Select):
        limit = select.args.get("limit")
        many = limit.expression if isinstance(limit, exp.Limit) else None
        is_number = isinstance(many, exp.Literal) and many.this.isdigit() and int(many.this) > 0
        if is_number and select.args.get("offset") is None and _has_one_row(select):
            select.set("limit", None)


def _has_one_row(query: exp.Expr) -> bool:
    """Whether a query has one row at most: an aggregate without GROUP BY, or a product of such."""
    select = unwrapped(query)
    if not isinstance(select, exp.Select):
        return False
    if is_aggregating(select):
        return select.args.get("group") is None
    start, joins = select.args.get("from_"), select.args.get("joins") or ()
    if start is None:
        return True
    is_inner = not any(join.args.get("side") for join in joins)
    return is_inner and all(
        isinstance(source, exp.Subquery) and not source.args.get("joins") and _has_one_row(source.this)
        for source in (start.this, *(join.this for join in joins))
    )
