"""What changes nothing: LIMIT of a query that has one row at most, and SELECT around one value.

Such a LIMIT leaves out nothing, so no order has to say which row comes first. `(SELECT x + 1)` without FROM is `x + 1`.
"""

from __future__ import annotations

from sqlglot import exp

from dynq_cli.query.sql.shape import is_aggregating, unwrapped

_NO_VALUE = (exp.From, exp.Join, exp.Lateral, exp.CTE, exp.SetOperation, exp.Subquery, exp.Exists, exp.Any, exp.All)
# A number in these is a place in the SELECT, or no value.
_BY_NUMBER = (exp.Group, exp.Order, exp.Distinct, exp.Limit, exp.Offset)


def drop_idle_limits(tree: exp.Expr) -> None:
    """Drop each LIMIT of one row or more, without OFFSET, from a SELECT that has one row at most."""
    for select in tree.find_all(exp.Select):
        limit = select.args.get("limit")
        many = limit.expression if isinstance(limit, exp.Limit) else None
        is_number = isinstance(many, exp.Literal) and many.this.isdigit() and int(many.this) > 0
        if is_number and select.args.get("offset") is None and _has_one_row(select):
            select.set("limit", None)


def open_plain_values(tree: exp.Expr) -> None:
    """Put the value itself in the place of each SELECT of one value, without FROM, that stands as a value."""
    for subquery in list(tree.find_all(exp.Subquery, bfs=False))[::-1]:
        value = _plain_value(subquery.this)
        around = subquery.parent
        if value is None or around is None or isinstance(around, _NO_VALUE):
            continue
        if isinstance(subquery.find_ancestor(exp.Select, *_BY_NUMBER), _BY_NUMBER):
            continue
        if isinstance(around, exp.In) and subquery.arg_key != "this":
            continue
        made: exp.Expr = exp.Paren(this=value.copy())
        made.meta.update(subquery.meta)
        alias = subquery.args.get("alias")
        subquery.replace(made if alias is None else exp.Alias(this=made, alias=alias.this.copy()))


def _plain_value(select: exp.Expr) -> exp.Expr | None:
    if not isinstance(select, exp.Select) or is_aggregating(select) or len(select.expressions) != 1:
        return None
    if any(part for name, part in select.args.items() if name not in ("expressions", "kind", "hint")):
        return None
    value = select.expressions[0].unalias()
    kinds = (exp.Star, exp.Window, exp.Explode, exp.Unnest, exp.Query)
    return None if value.find(*kinds) is not None else value


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
