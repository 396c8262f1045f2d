"""EXISTS, IN, ANY and their negations → atoms.

`x IN (SELECT y …)` is EXISTS with the condition x = y more, so there is one mapping:

- a positive one in a body whose rows are distinct: its tables become join atoms there;
- over one table: one semi or anti atom, with the table's filters;
- anything else: a view with the linking columns, and a semi or anti atom over it.

NOT IN differs from NOT EXISTS where NULL occurs: its atom is then `null_aware`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from sqlglot import exp

from dynq_cli.query.draft import Draft, Term
from dynq_cli.query.normal_form import AtomMode
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.allow import COMPARISONS
from dynq_cli.query.sql.build import Body, take_condition
from dynq_cli.query.sql.context import Context, Ctes, Table, bare, column_node, key_of, many, tables_of
from dynq_cli.query.sql.items import select_items
from dynq_cli.query.sql.join_comparisons import Link
from dynq_cli.query.sql.scalars import name_of, scalar
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import has_query, is_aggregating, is_by_places, unwrapped
from dynq_cli.query.sql.sources import add_from, add_view, view_table, with_ctes

_SCALAR_HINT = "join with a derived table: FROM …, (SELECT k, MAX(x) AS m FROM … GROUP BY k) AS d WHERE …"


@dataclass(frozen=True)
class _Subquery:
    """`positive`: some row of the query must satisfy the comparisons with `outer`; else none may."""

    query: exp.Expr
    positive: bool
    outer: tuple[exp.Expr, ...]
    op: type[exp.Expr]
    by_value: bool
    node: exp.Expr

    @property
    def mode(self) -> AtomMode:
        return "semi" if self.positive else "anti"


def take_subquery(body: Body, scope: Scope, conjunct: exp.Expr, ctes: Ctes) -> None:
    """Enter a conjunct that holds a subquery. Raises QueryProblems for other forms."""
    found = _recognised(body.context, scope, conjunct)
    select = unwrapped(found.query)
    if not isinstance(select, exp.Select) or is_aggregating(select) or is_by_places(select):
        _over_view(body, scope, found, ctes)
    elif found.positive and body.flat:
        _inlined(body, scope, found, select, with_ctes(select, ctes))
    else:
        _correlated(body, scope, found, select, with_ctes(select, ctes))


def _recognised(context: Context, scope: Scope, conjunct: exp.Expr) -> _Subquery:
    negated = isinstance(conjunct, exp.Not)
    node = bare(conjunct.this) if negated else conjunct
    if isinstance(node, exp.Exists):
        return _Subquery(_without_limit(node.this), not negated, (), exp.EQ, False, conjunct)
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _Subquery(node.args["query"], not negated, _row(context, scope, node.this), exp.EQ, True, conjunct)
    if type(node) in COMPARISONS and isinstance(node.args["expression"], exp.Any | exp.All):
        return _quantified(context, scope, node, negated, conjunct)
    if isinstance(node, exp.Or | exp.Case | exp.And | exp.If | exp.Xor):
        message = "EXISTS and IN (SELECT …) are supported only as conditions of their own, joined by AND"
        raise context.refuse(_first_query(node), message, "write a UNION of SELECTs, one for each side of the OR")
    message = "a subquery cannot stand for a value"
    raise context.refuse(_first_query(node), message, _SCALAR_HINT)


def _without_limit(query: exp.Expr) -> exp.Expr:
    """EXISTS asks for one row: a LIMIT of one or more leaves the answer as it is."""
    select = unwrapped(query)
    limit = select.args.get("limit")
    many = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(many, exp.Literal) and many.this.isdigit() and int(many.this) and not select.args.get("offset"):
        select.set("limit", None)
    return query


def _quantified(context: Context, scope: Scope, node: exp.Expr, negated: bool, conjunct: exp.Expr) -> _Subquery:
    quantifier, op = node.args["expression"], type(node)
    everything = isinstance(quantifier, exp.All)
    row = _row(context, scope, node.this)
    if op is exp.EQ and not everything:
        return _Subquery(quantifier.this, not negated, row, exp.EQ, True, conjunct)
    if op is exp.NEQ and everything:
        return _Subquery(quantifier.this, negated, row, exp.EQ, True, conjunct)
    if not everything and not negated and len(row) == 1:
        return _Subquery(quantifier.this, True, row, op, True, conjunct)
    shown = "ALL" if everything else "NOT … ANY"
    message = f"{shown} with {COMPARISONS[op]} is not supported"
    raise context.refuse(node, message, "write NOT EXISTS (SELECT 1 FROM … WHERE …) with the opposite comparison")


def _row(context: Context, scope: Scope, node: exp.Expr) -> tuple[exp.Expr, ...]:
    inner = bare(node)
    if has_query(inner):
        raise context.refuse(inner, "a subquery cannot stand for a value", _SCALAR_HINT)
    values = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    return tuple(scope.resolve(v) for v in values)


def _first_query(node: exp.Expr) -> exp.Expr:
    return next((n for n in node.walk() if isinstance(n, exp.Query | exp.Exists)), node)


def _pairs(body: Body, found: _Subquery, inner: list[exp.Expr]) -> list[exp.Expr]:
    """The comparisons between the row outside and the columns inside."""
    if found.by_value and len(inner) != len(found.outer):
        message = f"the subquery has {many(len(inner), 'column')}, the left side has {many(len(found.outer), 'value')}"
        raise body.context.refuse(found.node, message, "select as many columns as stand on the left")
    made = []
    for outer, column in zip(found.outer, inner, strict=True) if found.by_value else ():
        pair = found.op(this=outer.copy(), expression=column.copy())
        pair.meta["start"] = body.context.at(found.node)
        made.append(pair)
    return made


def _columns(scope: Scope, select: exp.Select, found: _Subquery) -> list[exp.Expr]:
    items = select_items(scope, select)
    return [item.node for item in items] if found.by_value else []


def _inlined(body: Body, scope: Scope, found: _Subquery, select: exp.Select, ctes: Ctes) -> None:
    inner = add_from(body, select, ctes, scope)
    for pair in _pairs(body, found, _columns(inner, select, found)):
        for piece in body.pieces(pair):
            body.take(piece)
    condition = select.args.get("where")
    if condition is not None:
        take_condition(body, inner, condition.this, ctes)


def _correlated(body: Body, scope: Scope, found: _Subquery, select: exp.Select, ctes: Ctes) -> None:
    context = body.context
    alias = f"exists{len(context.view_names) + 1}"
    sub = Body(context, Draft(f"{body.draft.name}.{alias}", "set"), flat=True)
    inner = add_from(sub, select, ctes, scope)
    before = len(context.problems)
    condition = select.args.get("where")
    if condition is not None:
        take_condition(sub, inner, condition.this, ctes)
    links, aware = _value_links(body, sub, found, _columns(inner, select, found))
    if len(context.problems) > before:
        return
    links += _foreign_links(body, sub, found)
    if len(sub.draft.atoms) == 1:
        body.adopt(sub, found.mode)
        body.draft.views += sub.draft.views
        _attach(body, links, aware, next(iter(sub.atoms)))
    else:
        table, links = _as_view(body, sub, links, alias)
        body.add(table, found.mode)
        _attach(body, links, aware, table.number)


def _value_links(body: Body, sub: Body, found: _Subquery, columns: list[exp.Expr]) -> tuple[list[Link], bool]:
    """Links for IN; the flag says whether NULL on either side decides, as in NOT IN."""
    pairs = _pairs(sub, found, columns)
    context = body.context
    if found.positive or not found.by_value:
        for pair in pairs:
            for piece in sub.pieces(pair):
                sub.take(piece)
        return [], False
    links = []
    aware = False
    for pair in pairs:
        links.append(_equality(context, found, pair))
        aware = aware or any(scalar(context, side).nullable for side in (links[-1].left, links[-1].right))
    if aware and len(links) > 1:
        message = "NOT IN over rows with columns that may be NULL is not supported"
        raise context.refuse(found.node, message, "write NOT EXISTS (SELECT 1 FROM … WHERE a = x AND b = y)")
    return links, aware


def _equality(context: Context, found: _Subquery, pair: exp.Expr) -> Link:
    """The comparison of NOT IN; nothing is moved between its sides, where NULL counts."""
    outer, column = pair.args["this"], pair.args["expression"]
    sides = tables_of(outer), tables_of(column)
    if len(sides[0]) != 1 or len(sides[1]) != 1 or sides[0] == sides[1]:
        message = "NOT IN compares an expression over one table outside with one over one table inside"
        raise context.refuse(found.node, message, "write NOT EXISTS (SELECT 1 FROM … WHERE …)")
    return Link(outer, "=", column, Decimal(0), context.at(pair))


def _foreign_links(body: Body, sub: Body, found: _Subquery) -> list[Link]:
    """What the subquery says about the query around: links, and conditions that can be lifted."""
    links = []
    for piece in sub.foreign:
        inside = isinstance(piece, Link) and any(t in sub.atoms for t in piece.tables)
        if isinstance(piece, Link) and inside:
            oriented = piece if piece.tables[1] in sub.atoms else piece.flipped()
            if oriented.tables[0] not in body.atoms:
                message = "a subquery may look into the query around it, but not further out"
                raise body.context.refuse_at(piece.at, message, "join with a derived table")
            links.append(oriented)
        elif found.positive:
            body.take(piece)
        else:
            at = piece.at if isinstance(piece, Link) else body.context.at(piece.node)
            message = "this condition in NOT EXISTS or NOT IN is about the outer query only"
            raise body.context.refuse_at(at, message, "move it out of the subquery, or split the query by UNION ALL")
    return links


def _as_view(body: Body, sub: Body, links: list[Link], alias: str) -> tuple[Table, list[Link]]:
    """The distinct linking columns of a subquery as a view."""
    names: dict[str, str] = {}
    for link in links:
        key = key_of(link.right)
        if key not in names:
            base = name_of(link.right)
            names[key] = base if base not in names.values() else f"{base}_{len(names) + 1}"
            sub.draft.output(names[key], sub.term(link.right))
    name = body.context.view_name(body.draft.name, alias)
    sub.draft.name = name
    table = view_table(body, normalise(sub.draft), name, alias)
    moved = [
        replace(link, right=column_node(table, table.column(names[key_of(link.right)]), link.at)) for link in links
    ]
    return table, moved


def _attach(body: Body, links: list[Link], aware: bool, table: int) -> None:
    for i, link in enumerate(links):
        if aware and i == 0:
            _null_aware(body, link, table, apart=len(links) > 1)
        else:
            body.take(link)


def _null_aware(body: Body, link: Link, table: int, apart: bool) -> None:
    """The equality of a NOT IN. `apart`: there are other equalities, which must not make one variable of either of its
    sides and theirs, since it alone may be NULL; so both get a term of their own."""
    outer, column = ((_own_term if apart else Body.term)(body, side) for side in (link.left, link.right))
    body.draft.equal(outer, column, link.at)
    body.draft.atoms[body.atoms[table]].null_aware = column


def _own_term(body: Body, side: exp.Expr) -> Term:
    plain = scalar(body.context, side)
    return body.draft.term(body.atoms[tables_of(side)[0]], replace(plain, sql=f"({plain.sql})"), name_of(side))


def _over_view(body: Body, scope: Scope, found: _Subquery, ctes: Ctes) -> None:
    """A subquery with aggregates, or a union: a view of its own, not correlated."""
    context = body.context
    closed = Scope(context, scope, closed_because="a subquery with aggregates, GROUP BY or UNION")
    table = add_view(body, found.query, f"exists{len(context.view_names) + 1}", ctes, closed)
    columns: list[exp.Expr] = [column_node(table, c, context.at(found.node)) for c in table.columns]
    body.add(table, found.mode)
    nullable = any(scalar(context, side).nullable for side in (*found.outer, *columns[: len(found.outer)]))
    if not found.positive and found.by_value and nullable:
        if len(found.outer) > 1:
            message = "NOT IN over rows with columns that may be NULL is not supported"
            raise context.refuse(found.node, message, "write NOT EXISTS over a derived table")
        for pair in _pairs(body, found, columns):
            _null_aware(body, _equality(context, found, pair), table.number, apart=False)
        return
    for pair in _pairs(body, found, columns):
        if found.positive:
            for piece in body.pieces(pair):
                body.take(piece)
        else:
            body.take(_equality(context, found, pair))
