"""Subqueries that stand for values → columns of views that are joined.

    SELECT a, (SELECT COUNT(*) FROM S WHERE S.k = R.k) FROM R

    groups(k, n) :- S(k), per k
    SELECT a, coalesce(n, 0) FROM R LEFT JOIN groups ON groups.k = R.k

- A subquery is grouped by what it says to be equal to the query around it, and its aggregates are columns. What is
  computed from these is computed outside, where a group that is not there counts 0 rows, and has no other value.
- If it looks outside in any other way, its rows are joined with the distinct values that it looks at: its groups are
  per value, and these are equal to those outside also where both are NULL. Queries further out are reached so, too.
- EXISTS is COUNT(*) > 0, `x IN (SELECT y …)` counts the rows with y = x, and > ALL compares with MAX(y). Whether the
  answer is NULL is seen from COUNT(*) and COUNT(y).
- A subquery without aggregates is MIN of its one row. Where it may have several, a row more than one fails the commit.
- Where no row passes for which the value is NULL, the groups are joined, and nothing is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dynq_cli.query.draft import Draft
from dynq_cli.query.normal_form import View
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.aggregates import Groups
from dynq_cli.query.sql.allow import COMPARISONS, is_strict, may_be_null
from dynq_cli.query.sql.build import Body, take_condition
from dynq_cli.query.sql.calls import is_aggregate
from dynq_cli.query.sql.context import Ctes, Table, bare, column_node, key_of, many, tables_of
from dynq_cli.query.sql.items import select_items
from dynq_cli.query.sql.join_comparisons import Link
from dynq_cli.query.sql.joined_rows import is_mixed, join_rows, mentioned, move_piece
from dynq_cli.query.sql.outer_joins import On, left_join
from dynq_cli.query.sql.predicates import Filter, Piece
from dynq_cli.query.sql.scalars import closed, scalar
from dynq_cli.query.sql.scope import Scope, Source
from dynq_cli.query.sql.shape import (
    has_limit,
    has_query,
    is_aggregating,
    is_by_places,
    is_distinct,
    is_one_row,
    unwrapped,
)
from dynq_cli.query.sql.sources import add_from, add_view, with_ctes
from dynq_cli.spec.model import Column

_GROUPS = "what a subquery gives, per value outside"
_VALUES = "the values of the query around that a subquery looks at"
_SEVERAL = "More than one row returned by a subquery used as an expression"
# Aggregates that have a value where there is nothing to aggregate: 0.
_COUNTS = {"count", "count_if", "countif", "regr_count", "approx_count_distinct", "approx_distinct"}


def with_values(
    body: Body,
    scope: Scope,
    node: exp.Expr,
    ctes: Ctes,
    *,
    is_condition: bool = False,
    given: Mapping[str, exp.Expr] | None = None,
) -> exp.Expr:
    """A copy of a node with every column resolved, and with columns of joined views in place of its subqueries.

    `is_condition`: only whether it is true counts, so NULL is as good as FALSE. `given` are resolved expressions for
    marks in the node.
    """
    holder = exp.Paren(this=node.copy())
    values = dict(given or {})
    asked = _Asked(body, scope, ctes, values)
    asked.replace_in(holder, is_condition, is_condition)
    resolved = exp.Paren(this=scope.resolve(holder.this))
    for mark in list(resolved.find_all(exp.Placeholder)):
        value = values.get(str(mark.this))
        if value is not None:
            mark.replace(closed(value.copy()))
    made: exp.Expr = resolved.this
    return made.pop()


@dataclass
class _Asked:
    """The subqueries of one expression; each is replaced by a mark, whose value is noted."""

    body: Body
    scope: Scope
    ctes: Ctes
    values: dict[str, exp.Expr]

    def replace_in(self, node: exp.Expr, is_true: bool, is_needed: bool) -> None:
        """`is_true`: only whether the node is true counts. `is_needed`: it is not true where a part of it is NULL."""
        for child in list(node.iter_expressions()):
            if not has_query(child):
                continue
            made = self._value(child, is_true, is_needed)
            if made is not None:
                name = f"value{len(self.values)}"
                self.values[name] = made
                child.replace(exp.Placeholder(this=name))
                continue
            strict = is_strict(child) and not isinstance(child, exp.Not | exp.Or | exp.In)
            # NULL AND FALSE is FALSE: inside a comparison, AND may be known where a part of it is not.
            needed = strict or (is_true and isinstance(child, exp.And))
            self.replace_in(child, is_true and isinstance(child, exp.And | exp.Paren | exp.Or), is_needed and needed)

    def _value(self, node: exp.Expr, is_true: bool, is_needed: bool) -> exp.Expr | None:
        if isinstance(node, exp.Exists):
            return self._exists(node)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self._compared(node, exp.EQ, node.this, node.args["query"], is_all=False, is_true=is_true)
        if type(node) in COMPARISONS and isinstance(node.args["expression"], exp.Any | exp.All):
            quantifier = node.args["expression"]
            is_all = isinstance(quantifier, exp.All)
            return self._compared(node, type(node), node.this, quantifier.this, is_all=is_all, is_true=is_true)
        if isinstance(node, exp.Query):
            return self._scalar(node, is_needed)
        return None

    def _inside(self, query: exp.Expr) -> _Inside:
        return _Inside.of(self.body, self.scope, query, self.ctes)

    def _exists(self, node: exp.Exists) -> exp.Expr:
        select = unwrapped(node.this)
        if isinstance(select, exp.Select) and _is_one_group(select) and not has_limit(select):
            if select.args.get("having") is None:
                return exp.Boolean(this=True)
            inside = self._inside(node.this)
            (found,) = inside.joined([inside.having])
            return exp.Coalesce(this=closed(found), expressions=[exp.Boolean(this=False)])
        inside = self._inside(without_limit(node.this))
        (rows,) = inside.joined([_count(exp.Star())])
        return exp.GT(this=rows, expression=exp.Literal.number(0))

    def _scalar(self, node: exp.Expr, is_needed: bool) -> exp.Expr:
        context, select = self.body.context, unwrapped(node)
        inside = self._inside(node)
        if len(inside.items) != 1:
            message = f"a subquery that stands for a value has {many(len(inside.items), 'column')}"
            raise context.refuse(node, message, "select one column")
        (item,) = inside.items
        if inside.is_one_group:
            if inside.having is None:
                return inside.joined([item], is_needed=is_needed and _is_null_if_missing(item))[0]
            value, passes = inside.joined([item, inside.having])
            return exp.Case(ifs=[exp.If(this=passes, true=value)])
        least = exp.Min(this=item.copy())
        if _is_one_row(select) or is_one_row(select) or inside.has_key:
            return inside.joined([least], is_needed=is_needed)[0]
        counted: exp.Expr = _count(exp.Star())
        if isinstance(select, exp.Select) and is_distinct(select) and not inside.is_view:
            several = exp.Count(this=exp.Distinct(expressions=[item.copy()]), big_int=True)
            counted = exp.Add(this=several, expression=_one_if(exp.GT(this=counted, expression=_count(item))))
        value, rows = inside.joined([least, counted])
        failed = exp.cast(exp.Anonymous(this="error", expressions=[exp.Literal.string(_SEVERAL)]), self._type(value))
        is_several = exp.GT(this=closed(rows), expression=exp.Literal.number(1))
        return exp.Case(ifs=[exp.If(this=is_several, true=failed)], default=value)

    def _type(self, node: exp.Expr) -> str:
        return scalar(self.body.context, node).type.sql

    def _compared(
        self, node: exp.Expr, op: type[exp.Expr], left: exp.Expr, query: exp.Expr, *, is_all: bool, is_true: bool
    ) -> exp.Expr:
        """`left op ANY (query)`, or ALL."""
        context = self.body.context
        if isinstance(bare(left), exp.Tuple):
            message = "a row that is looked for in a subquery inside an expression"
            raise context.refuse(node, message, "write EXISTS (SELECT 1 FROM … WHERE a = x AND b = y)")
        outer = with_values(self.body, self.scope, left, self.ctes, given=self.values)
        inside = self._inside(query)
        if len(inside.items) != 1:
            message = f"the subquery has {many(len(inside.items), 'column')}, the left side has 1 value"
            raise context.refuse(node, message, "select as many columns as stand on the left")
        if inside.is_one_group:
            # One row, for which ANY and ALL are the same.
            return op(this=closed(outer), expression=closed(self._scalar(query, False)))
        (item,) = inside.items
        if (op, is_all) in ((exp.EQ, False), (exp.NEQ, True)):
            found = self._found(outer, item, inside, query, is_true=is_true and not is_all)
            return exp.Not(this=exp.Paren(this=found)) if is_all else found
        least, greatest, rows, present = inside.joined(
            [exp.Min(this=item.copy()), exp.Max(this=item.copy()), _count(exp.Star()), _count(item)]
        )
        return _quantified(op, outer, (least, greatest, rows, present), is_all=is_all)

    def _view(self, query: exp.Expr) -> _Inside:
        return _Inside.over_view(self.body, self.scope, query, self.ctes)

    def _found(self, outer: exp.Expr, item: exp.Expr, inside: _Inside, query: exp.Expr, *, is_true: bool) -> exp.Expr:
        context = self.body.context

        def nullable(node: exp.Expr) -> bool:
            return may_be_null(node, lambda c: context.column(c).nullable)

        known = nullable(outer), nullable(item)
        inside.take(exp.EQ(this=closed(outer.copy()), expression=closed(item.copy())))
        (equal,) = inside.joined([_count(exp.Star())])
        found = exp.GT(this=closed(equal), expression=exp.Literal.number(0))
        if is_true or not any(known):
            return found
        again = self._view(query) if inside.is_view else self._inside(query)
        rows, present = again.joined([_count(exp.Star()), _count(again.items[0])])
        return exp.Case(
            ifs=[
                exp.If(this=found, true=exp.Boolean(this=True)),
                exp.If(this=exp.EQ(this=closed(rows), expression=exp.Literal.number(0)), true=exp.Boolean(this=False)),
                exp.If(this=_is_open(outer, rows, present), true=exp.cast(exp.Null(), "BOOLEAN")),
            ],
            default=exp.Boolean(this=False),
        )


def _is_open(outer: exp.Expr, rows: exp.Expr, present: exp.Expr) -> exp.Expr:
    """Whether NULL on either side leaves a comparison open."""
    missing = exp.LT(this=closed(present.copy()), expression=closed(rows.copy()))
    return exp.Or(this=exp.Is(this=closed(outer.copy()), expression=exp.Null()), expression=missing)


def _quantified(
    op: type[exp.Expr], outer: exp.Expr, inner: tuple[exp.Expr, exp.Expr, exp.Expr, exp.Expr], *, is_all: bool
) -> exp.Expr:
    """`outer op ALL` or ANY of values, from the least, the greatest, how many there are, and how many are not NULL."""
    least, greatest, rows, present = inner

    def compared(kind: type[exp.Expr], value: exp.Expr) -> exp.Expr:
        return kind(this=closed(outer.copy()), expression=closed(value.copy()))

    def either(kind: type[exp.Expr]) -> exp.Expr:
        return exp.Or(this=compared(kind, least), expression=compared(kind, greatest))

    opposite: dict[type[exp.Expr], type[exp.Expr]] = {
        exp.LT: exp.GTE,
        exp.LTE: exp.GT,
        exp.GT: exp.LTE,
        exp.GTE: exp.LT,
    }
    if op in (exp.EQ, exp.NEQ):
        decided = either(exp.NEQ)
    elif is_all:
        # It fails for the greatest value, or the least.
        decided = compared(opposite[op], greatest if op in (exp.GT, exp.GTE) else least)
    else:
        decided = compared(op, least if op in (exp.GT, exp.GTE) else greatest)
    return exp.Case(
        ifs=[
            exp.If(this=exp.EQ(this=closed(rows), expression=exp.Literal.number(0)), true=exp.Boolean(this=is_all)),
            exp.If(this=decided, true=exp.Boolean(this=not is_all)),
            exp.If(this=_is_open(outer, rows, present), true=exp.cast(exp.Null(), "BOOLEAN")),
        ],
        default=exp.Boolean(this=is_all),
    )


def _count(item: exp.Expr) -> exp.Expr:
    return exp.Count(this=item.copy(), big_int=True)


def _one_if(condition: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))], default=exp.Literal.number(0))


def _is_one_group(select: exp.Expr) -> bool:
    """Whether a query has one row, of aggregates over all it reads."""
    if not isinstance(select, exp.Select) or select.args.get("group") is not None or is_by_places(select):
        return False
    return is_aggregating(select)


def _is_one_row(query: exp.Expr) -> bool:
    """Whether a LIMIT leaves no more than one row."""
    limit = query.args.get("limit")
    given = limit.expression if isinstance(limit, exp.Limit) else None
    return isinstance(given, exp.Literal) and given.this in ("0", "1")


def without_limit(query: exp.Expr) -> exp.Expr:
    """EXISTS asks for one row: a LIMIT of one or more leaves the answer as it is."""
    select = unwrapped(query)
    limit = select.args.get("limit")
    many = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(many, exp.Literal) and many.this.isdigit() and int(many.this) and not select.args.get("offset"):
        select.set("limit", None)
    return query


def _is_null_if_missing(node: exp.Expr) -> bool:
    """Whether an expression over aggregates is NULL where there is nothing to aggregate."""
    inner = bare(node)
    if _is_call(inner):
        return not _is_count(inner)
    if not is_strict(inner):
        return False
    return any(_is_null_if_missing(child) for child in inner.iter_expressions())


def _is_call(node: exp.Expr) -> bool:
    return is_aggregate(node) or isinstance(node, exp.Filter)


def _is_count(node: exp.Expr) -> bool:
    call = node.this if isinstance(node, exp.Filter) else node
    if isinstance(call, exp.Func) and not isinstance(call, exp.Anonymous):
        return call.sql_name().lower() in _COUNTS
    return str(call.this).lower() in _COUNTS


def _calls(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates that an expression calls."""
    if _is_call(node):
        yield node
        return
    for child in list(node.iter_expressions()):
        yield from _calls(child)


@dataclass(frozen=True)
class _Resolved(On):
    """Resolved conditions in place of an ON."""

    conditions: tuple[exp.Expr, ...] = field(default=())

    def conjuncts(self, left: Scope, right: Scope) -> list[exp.Expr]:
        return [condition.copy() for condition in self.conditions]


@dataclass(frozen=True)
class _Pair:
    """A value outside, and one of the subquery's rows that equals it; `null_safe`: or both are NULL."""

    outer: exp.Expr
    inner: exp.Expr
    null_safe: bool

    def equality(self, inner: exp.Expr) -> exp.Expr:
        kind = exp.NullSafeEQ if self.null_safe else exp.EQ
        return kind(this=closed(self.outer.copy()), expression=inner)


@dataclass
class _Inside:
    """The FROM and WHERE of a subquery as a body, what it selects, and what it asks of groups."""

    around: Body
    outer: Scope
    body: Body
    scope: Scope
    items: list[exp.Expr]
    having: exp.Expr | None = None
    is_one_group: bool = False
    is_view: bool = False
    has_key: bool = False
    names: set[str] = field(default_factory=set)

    @staticmethod
    def of(around: Body, outer: Scope, query: exp.Expr, ctes: Ctes) -> _Inside:
        select = unwrapped(query)
        is_one = _is_one_group(select)
        if not isinstance(select, exp.Select) or is_by_places(select) or (is_aggregating(select) and not is_one):
            return _Inside.over_view(around, outer, query, ctes)
        context = around.context
        body = _sub(around)
        before = len(context.problems)
        inside = with_ctes(select, ctes)
        scope = add_from(body, select, inside, outer)
        condition = select.args.get("where")
        if condition is not None:
            take_condition(body, scope, condition.this, inside)
        items = [
            with_values(body, scope, i.node, inside) if has_query(i.node) else i.node
            for i in select_items(scope, select)
        ]
        clause = select.args.get("having")
        having = with_values(body, scope, clause.this, inside, is_condition=True) if clause is not None else None
        if len(context.problems) > before:
            context.stop_on_problems()
        has_key = _has_key(body)
        return _Inside(around, outer, body, scope, items, having, is_one, has_key=has_key, names=mentioned(select))

    @staticmethod
    def over_view(around: Body, outer: Scope, query: exp.Expr, ctes: Ctes) -> _Inside:
        """Of a query that is a view of its own, which does not look outside."""
        context = around.context
        closed_scope = Scope(context, outer, closed_because="a subquery with GROUP BY, LIMIT or UNION")
        body = _sub(around)
        alias = f"value{len(context.view_names) + 1}"
        table = add_view(body, query, alias, ctes, closed_scope)
        body.add(table)
        items: list[exp.Expr] = [column_node(table, c, context.at(query)) for c in table.columns]
        scope = Scope(context, outer)
        scope.add(Source(alias, [(c.name, e) for c, e in zip(table.columns, items, strict=True)]), query)
        return _Inside(around, outer, body, scope, items, is_view=True)

    def take(self, condition: exp.Expr) -> None:
        """Keep only the rows that satisfy a resolved condition."""
        for piece in self.body.pieces(condition):
            self.body.take(piece)

    def joined(self, wanted: list[exp.Expr | None], *, is_needed: bool = False) -> list[exp.Expr]:
        """What expressions over aggregates are for each row of the body around, in which a view is joined for them.

        `is_needed`: rows for which they are NULL need not stay.
        """
        nodes = [node for node in wanted if node is not None]
        body, foreign = self.body, self.body.foreign
        calls = [call for node in nodes for call in _calls(node)]
        inside = {c for call in calls for c in _columns(call) if c[0] not in body.atoms}
        links = [self._oriented(piece) for piece in foreign]
        conditions: list[exp.Expr] = []
        pairs: list[_Pair] = []
        if inside or any(link is None for link in links):
            nodes, pairs = self._per_value(nodes, inside)
        else:
            moved = self._mixed(nodes)
            nodes = [moved(node) for node in nodes]
            for piece in body.foreign:
                link = self._oriented(piece)
                if isinstance(link, Link):
                    pairs.append(_Pair(reach(self.around, link.left), link.right, link.null_safe))
                elif isinstance(piece, Filter):
                    conditions.append(reach(self.around, piece.node))
        return self._grouped(nodes, pairs, conditions, is_needed)

    def _oriented(self, piece: Piece) -> Link | Filter | None:
        """A correlation that groups can be joined by: an equality, the value outside on the left; or a condition of one
        table outside."""
        if isinstance(piece, Filter):
            return piece
        if not isinstance(piece, Link) or piece.op != "=" or piece.offset:
            return None
        inner = [t in self.body.atoms for t in piece.tables]
        return piece if inner == [False, True] else piece.flipped() if inner == [True, False] else None

    def _mixed(self, nodes: list[exp.Expr]) -> Callable[[exp.Expr], exp.Expr]:
        """Join the rows if something reads several tables of the subquery."""
        calls = [call for node in nodes for call in _calls(node)]
        if self.body.mixed or any(is_mixed(self.body, call, set()) for call in calls):
            return join_rows(self.body, [self.scope], calls, ())
        return lambda node: node

    def _per_value(self, nodes: list[exp.Expr], inside: set[tuple[int, str]]) -> tuple[list[exp.Expr], list[_Pair]]:
        """Join the rows with the values outside that they look at. Return pairs that are equal, or both NULL."""
        body, context = self.body, self.body.context
        foreign, body.foreign = body.foreign, []
        found = dict.fromkeys(
            c for piece in foreign for side in _sides(piece) for c in _columns(side) if c[0] not in body.atoms
        )
        columns = [*found, *(c for c in sorted(inside) if c not in found)]
        outside = [reach(self.around, _column(context.tables[t], name)) for t, name in columns]
        table = _values(self.around, outside)
        body.add(table)
        held = {c: column_node(table, column) for c, column in zip(columns, table.columns, strict=True)}

        def moved(node: exp.Expr) -> exp.Expr:
            return _replaced(node, held)

        for piece in foreign:
            over = move_piece(piece, moved)
            if isinstance(over, Link):
                body.take(over)
            else:
                for each in body.pieces(over.node):
                    body.take(each)
        nodes = [_in_calls(node, moved) for node in nodes]
        names = list(held.values())
        calls = [call for node in nodes for call in _calls(node)]
        if body.mixed or any(is_mixed(body, call, set()) for call in calls):
            over_rows = join_rows(body, [self.scope], [*calls, *names], ())
            nodes = [_in_calls(node, over_rows) for node in nodes]
            names = [over_rows(name) for name in names]  # type: ignore[misc]
        return nodes, [_Pair(value, name, True) for value, name in zip(outside, names, strict=True)]

    def _grouped(
        self,
        nodes: list[exp.Expr],
        pairs: list[_Pair],
        conditions: list[exp.Expr],
        is_needed: bool,
    ) -> list[exp.Expr]:
        body, around, context = self.body, self.around, self.body.context
        draft = body.draft
        keys: dict[str, str] = {}
        if pairs:
            terms = {key_of(pair.inner): body.term(pair.inner) for pair in pairs}
            draft.group_by = list(dict.fromkeys(terms.values()))
            for key, term in terms.items():
                keys[key] = f"key{len(keys) + 1}"
                draft.output(keys[key], term)
        groups = Groups(body, {} if pairs else None)
        calls = {key_of(call): call for node in nodes for call in _calls(node)}
        for call in calls.values():
            groups.prepare(call)
        made: dict[str, str] = {}
        for key, call in calls.items():
            made[key] = f"value{len(made) + 1}"
            draft.output(made[key], groups.value(call, made[key]))
        draft.name = context.view_name(around.draft.name, "value")
        query = replace(normalise(draft), views=())
        columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
        around.draft.views.append(View(draft.name, columns, query, _GROUPS))
        table = context.table("value", draft.name, columns)
        on = [pair.equality(column_node(table, table.column(keys[key_of(pair.inner)]))) for pair in pairs]
        source = Source("value", [(c.name, column_node(table, c)) for c in columns])
        is_padded = bool(on or conditions) and not is_needed
        if is_padded:
            (source,) = left_join(around, self.outer, _enter(table, source), _on([*on, *conditions])).sources
        else:
            around.add(table)
            for each in (*on, *conditions):
                for piece in around.pieces(each):
                    around.take(piece)
        held: dict[str, exp.Expr] = {}
        for key, name in made.items():
            value = source.find(name)
            assert value is not None
            held[key] = value
            if is_padded and _is_count(calls[key]):
                held[key] = exp.Coalesce(this=value.copy(), expressions=[exp.Literal.number(0)])
        return [_over(node, held) for node in nodes]


def _sub(around: Body) -> Body:
    """A body whose views are those of the one around it."""
    made = Body(around.context, Draft(f"{around.draft.name}.value", "bag"), flat=False, views=around.views)
    made.draft.views = around.draft.views
    made.outer = around
    return made


def _enter(table: Table, source: Source) -> Callable[[Body, Scope], None]:
    def enter(body: Body, scope: Scope) -> None:
        body.add(table)
        scope.add(source, exp.Null())

    return enter


def _on(conjuncts: Iterable[exp.Expr]) -> _Resolved:
    return _Resolved(exp.Join(this=exp.to_table("value")), None, lambda left, right: [], tuple(conjuncts))


def _column(table: Table, name: str) -> exp.Column:
    return column_node(table, table.column(name))


def _columns(node: exp.Expr) -> list[tuple[int, str]]:
    return list(dict.fromkeys((int(c.table), c.name) for c in node.find_all(exp.Column)))


def _sides(piece: Piece) -> list[exp.Expr]:
    return [piece.left, piece.right] if isinstance(piece, Link) else [piece.node]


def _replaced(node: exp.Expr, held: dict[tuple[int, str], exp.Column]) -> exp.Expr:
    holder = exp.Paren(this=node.copy())
    for column in list(holder.find_all(exp.Column)):
        known = held.get((int(column.table), column.name))
        if known is not None:
            made = known.copy()
            made.meta.update(column.meta)
            column.replace(made)
    found: exp.Expr = holder.this
    return found.pop()


def _in_calls(node: exp.Expr, moved: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A node with the aggregates that it calls changed, and nothing else."""
    holder = exp.Paren(this=node.copy())
    for call in list(_calls(holder)):
        call.replace(moved(call))
    found: exp.Expr = holder.this
    return found.pop()


def _over(node: exp.Expr, held: dict[str, exp.Expr]) -> exp.Expr:
    """A node with values in place of the aggregates that it calls."""
    holder = exp.Paren(this=node.copy())
    for call in list(_calls(holder)):
        call.replace(held[key_of(call)].copy())
    found: exp.Expr = holder.this
    return found.pop()


def _has_key(body: Body) -> bool:
    """Whether a body is one relation whose key is compared with constants, or with values outside."""
    if len(body.draft.atoms) != 1:
        return False
    (number,) = body.atoms
    relation = body.context.spec.relation(body.context.tables[number].source)
    if relation is None or not relation.key:
        return False
    held = {t.scalar.sql for t, _, _ in body.draft.constants}
    for piece in body.foreign:
        if isinstance(piece, Link) and piece.op == "=":
            inner = piece.left if tables_of(piece.left) == [number] else piece.right
            held.add(scalar(body.context, inner).sql)
    return held >= {f'"{c}"' for c in relation.key}


# Values of queries further out


def reach(body: Body, node: exp.Expr) -> exp.Expr:
    """An expression over tables of a body, or of those around it, as one over tables of the body.

    What is further out is joined as a relation of its distinct values, equal to those around also where both are NULL.
    """
    missing = [c for c in _columns(node) if c[0] not in body.atoms]
    unknown = [c for c in missing if c not in body.reached]
    if unknown:
        around = body.outer
        if around is None:
            number, name = unknown[0]
            message = f"{body.context.tables[number].alias}.{name} cannot be seen from this subquery"
            raise body.context.refuse(node, message, "add it to the GROUP BY around, or join with a derived table")
        outside = [reach(around, _column(body.context.tables[t], name)) for t, name in unknown]
        table = _values(around, outside)
        body.add(table)
        for column, value, held in zip(unknown, outside, table.columns, strict=True):
            body.reached[column] = inner = column_node(table, held)
            for piece in body.pieces(_Pair(value, inner, True).equality(inner)):
                body.take(piece)
    return _replaced(node, {c: held for c, held in body.reached.items() if c[0] not in body.atoms})


def _values(body: Body, nodes: list[exp.Expr]) -> Table:
    """A view with the distinct values of columns of a body, at least those that it has."""
    context = body.context
    tables = sorted({t for node in nodes for t in tables_of(node)})
    name = context.view_name(body.draft.name, "outside")
    if len(tables) == 1:
        made = Body(context, Draft(name, "set"), flat=True)
        made.add(context.tables[tables[0]])
    else:
        draft = body.draft.copy(name, "set")
        made = replace(body, draft=draft, flat=True, atoms=dict(body.atoms), foreign=[], mixed=[])
    for i, node in enumerate(nodes, 1):
        made.draft.output(f"outside{i}", made.term(node))
    query = replace(normalise(made.draft), views=())
    columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
    body.draft.views.append(View(name, columns, query, _VALUES))
    return context.table("outside", name, columns)
