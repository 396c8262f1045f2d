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
from dynq_cli.query.sql.joined_rows import join_rows, mentioned
from dynq_cli.query.sql.predicates import Constant, Filter, Mixed, Piece
from dynq_cli.query.sql.scalars import name_of, scalar
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import has_aggregate, has_query, is_aggregating, is_by_places, unwrapped
from dynq_cli.query.sql.sources import add_from, add_view, view_table, with_ctes
from dynq_cli.query.sql.values import reach, with_values, without_limit


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


def is_value(conjunct: exp.Expr) -> bool:
    """Whether a conjunct that holds a subquery is more than EXISTS, IN or ANY by itself."""
    node = bare(conjunct.this) if isinstance(conjunct, exp.Not) else conjunct
    if isinstance(node, exp.Exists):
        return False
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return has_query(node.this) or _is_one_group(node.args["query"])
    if type(node) not in COMPARISONS or not isinstance(node.args["expression"], exp.Any | exp.All):
        return True
    quantifier, negated = node.args["expression"], isinstance(conjunct, exp.Not)
    if has_query(node.this) or _is_one_group(quantifier.this):
        return True
    if isinstance(node, exp.EQ | exp.NEQ) and isinstance(node, exp.NEQ) == isinstance(quantifier, exp.All):
        return False
    return isinstance(quantifier, exp.All) or negated or isinstance(bare(node.this), exp.Tuple)


def _is_one_group(query: exp.Expr) -> bool:
    select = unwrapped(query)
    return isinstance(select, exp.Select) and is_aggregating(select) and select.args.get("group") is None


def take_subquery(body: Body, scope: Scope, conjunct: exp.Expr, ctes: Ctes) -> None:
    """Enter a conjunct that holds a subquery. Raises QueryProblems for other forms."""
    if is_value(conjunct):
        _by_value(body, scope, conjunct, ctes)
        return
    found = _recognised(body.context, scope, conjunct)
    select = unwrapped(found.query)
    if not isinstance(select, exp.Select) or is_aggregating(select) or is_by_places(select):
        _over_view(body, scope, found, ctes)
    elif found.positive and body.flat:
        _inlined(body, scope, found, select, with_ctes(select, ctes))
    else:
        _correlated(body, scope, found, select, with_ctes(select, ctes))


def _by_value(body: Body, scope: Scope, conjunct: exp.Expr, ctes: Ctes) -> None:
    resolved = with_values(body, scope, conjunct, ctes, is_condition=True)
    if has_aggregate(resolved):
        message = "an aggregate cannot stand in WHERE or ON, which are about single rows"
        raise body.context.refuse(conjunct, message, "use HAVING")
    resolved.meta.setdefault("start", body.context.at(conjunct))
    for piece in body.pieces(resolved):
        body.take(piece)


def _recognised(context: Context, scope: Scope, conjunct: exp.Expr) -> _Subquery:
    negated = isinstance(conjunct, exp.Not)
    node = bare(conjunct.this) if negated else conjunct
    if isinstance(node, exp.Exists):
        return _Subquery(without_limit(node.this), not negated, (), exp.EQ, False, conjunct)
    if isinstance(node, exp.In):
        return _Subquery(node.args["query"], not negated, _row(scope, node.this), exp.EQ, True, conjunct)
    quantifier, row = node.args["expression"], _row(scope, node.this)
    if isinstance(quantifier, exp.All):
        return _Subquery(quantifier.this, negated, row, exp.EQ, True, conjunct)
    return _Subquery(quantifier.this, not negated, row, type(node), True, conjunct)


def _row(scope: Scope, node: exp.Expr) -> tuple[exp.Expr, ...]:
    inner = bare(node)
    values = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    return tuple(scope.resolve(v) for v in values)


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


def _columns(body: Body, scope: Scope, select: exp.Select, found: _Subquery, ctes: Ctes) -> list[exp.Expr]:
    nodes = [item.node for item in select_items(scope, select)] if found.by_value else []
    return [with_values(body, scope, node, ctes) if has_query(node) else node for node in nodes]


def _inlined(body: Body, scope: Scope, found: _Subquery, select: exp.Select, ctes: Ctes) -> None:
    inner = add_from(body, select, ctes, scope)
    for pair in _pairs(body, found, _columns(body, inner, select, found, ctes)):
        for piece in body.pieces(pair):
            body.take(piece)
    condition = select.args.get("where")
    if condition is not None:
        take_condition(body, inner, condition.this, ctes)


def _correlated(body: Body, scope: Scope, found: _Subquery, select: exp.Select, ctes: Ctes) -> None:
    context = body.context
    alias = f"exists{len(context.view_names) + 1}"
    sub = Body(context, Draft(f"{body.draft.name}.{alias}", "set"), flat=True, outer=body)
    inner = add_from(sub, select, ctes, scope)
    before = len(context.problems)
    condition = select.args.get("where")
    if condition is not None:
        take_condition(sub, inner, condition.this, ctes)
    columns = _columns(sub, inner, select, found, ctes)
    if len(context.problems) > before:
        return
    is_apart = not found.positive and found.by_value and any(len(tables_of(o)) != 1 for o in found.outer)
    if is_apart or any(_looks_outside(piece, sub, found) for piece in sub.foreign):
        _by_value(body, scope, found.node, ctes)
        return
    if sub.mixed or any(len(tables_of(c)) > 1 for c in columns):
        columns = list(map(join_rows(sub, [inner], columns, mentioned(select)), columns))
    links, aware = _value_links(body, sub, found, columns)
    if sub.mixed:
        moved = join_rows(sub, [inner], [link.right for link in links], ())
        links = [replace(link, right=moved(link.right)) for link in links]
    if any(_looks_outside(piece, sub, found) for piece in sub.foreign):
        _by_value(body, scope, found.node, ctes)
        return
    links = [replace(link, left=reach(body, link.left)) for link in links] + _foreign_links(body, sub)
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


def _looks_outside(piece: Piece, sub: Body, found: _Subquery) -> bool:
    """Whether a piece says more of the query around than links and conditions that can be lifted do."""
    tables = (piece.table,) if isinstance(piece, Filter) else () if isinstance(piece, Constant) else piece.tables
    inside = any(t in sub.atoms for t in tables)
    return isinstance(piece, Mixed) if inside else not found.positive


def _foreign_links(body: Body, sub: Body) -> list[Link]:
    """What the subquery says about the queries around: links; conditions are lifted."""
    links = []
    for piece in sub.foreign:
        if isinstance(piece, Link) and any(t in sub.atoms for t in piece.tables):
            oriented = piece if piece.tables[1] in sub.atoms else piece.flipped()
            links.append(replace(oriented, left=reach(body, oriented.left)))
        else:
            body.take(piece)
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
    found = replace(found, outer=tuple(reach(body, outer) for outer in found.outer))
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
