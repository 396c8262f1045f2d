"""now(), current_date and current_timestamp → a column of the clock, which joins the FROM of the SELECT around.

SELECT id FROM orders WHERE due < current_date
SELECT id FROM clock, orders WHERE due < CAST(clock.now AS DATE)
"""

from __future__ import annotations

from sqlglot import exp

from dynq_cli.query.sql.calls import is_aggregate
from dynq_cli.query.sql.shape import is_aggregating
from dynq_cli.spec.clock import CALLS, NOW
from dynq_cli.spec.model import CLOCK

ALIAS = "_clock"
_CLASSES: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtimestamp: "localtimestamp",
}


def place_clock(tree: exp.Expr) -> bool:
    """Put the clock in place of calls that ask for the time; whether there was one."""
    placed: dict[int, exp.Select] = {}
    for node in list(tree.find_all(exp.Anonymous, *_CLASSES)):
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else _CLASSES[type(node)]
        around = _select_around(node)
        if name not in CALLS or any(True for _ in node.iter_expressions()) or around is None:
            continue
        placed[id(around)] = around
        made: exp.Expr = exp.Column(this=exp.to_identifier(NOW), table=exp.to_identifier(ALIAS))
        if CALLS[name] == "date":
            made = exp.cast(made, "DATE")
        if is_aggregating(around) and around.args.get("group") is not None and _is_of_groups(node, around):
            made = exp.Max(this=made)
        for part in made.walk():
            part.meta.update(node.meta)
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            made = exp.alias_(made, name)
        node.replace(made)
    for select in placed.values():
        _join(select)
    return bool(placed)


def _select_around(node: exp.Expr) -> exp.Select | None:
    """The SELECT that a node belongs to; None where that is a union."""
    around = node.parent
    while around is not None and not isinstance(around, exp.Query):
        around = around.parent
    return around if isinstance(around, exp.Select) else None


def _is_of_groups(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a node is a value of the groups, in none of their aggregates; every group has a row."""
    part, around = node, node.parent
    while around is not None and around is not select:
        if is_aggregate(around):
            return False
        part, around = around, around.parent
    return part.arg_key in ("expressions", "having", "order", "qualify")


def _join(select: exp.Select) -> None:
    """The clock before everything in FROM, so that all conditions can name it."""
    clock = exp.Table(this=exp.to_identifier(CLOCK, quoted=True), alias=exp.TableAlias(this=exp.to_identifier(ALIAS)))
    start = select.args.get("from_")
    if start is not None:
        select.set("joins", [exp.Join(this=start.this), *(select.args.get("joins") or ())])
    select.set("from_", exp.From(this=clock))
