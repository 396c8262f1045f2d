"""Outer joins → views whose rows are padded, and one atom over each.

    L LEFT JOIN R ON L.k = R.k

The nullable side becomes a view with the values that ON compares, and the columns of R:

    SELECT R.k, R.* FROM R
    UNION ALL
    SELECT DISTINCT L.k, NULL … FROM L WHERE NOT EXISTS (SELECT 1 FROM R WHERE R.k = L.k)

Then L joins with it where L.k is the same, and NULL is the same as NULL. Every row of L finds rows of R, or the one row
of NULLs, so everything around is an inner join: conditions on R's columns in WHERE filter the rows of the view.

- A condition of ON about L alone turns the value of L that is compared into NULL, which finds the row of NULLs.
- Where ON compares by anything but `=`, the view has the values of L joined with R.
- A nullable side of several tables, or with computed columns, is a view first.
- RIGHT is LEFT with the sides exchanged. FULL is the LEFT JOIN and the rows of R that find none in L.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from dynq_cli.query import scalar as sql
from dynq_cli.query.draft import Draft, Expression, Term
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn, Query, Scalar, UnionQuery, View
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.context import Table, bare, column_node, key_of, tables_of
from dynq_cli.query.sql.join_comparisons import Link
from dynq_cli.query.sql.joined_rows import join_rows
from dynq_cli.query.sql.predicates import Filter, conjuncts, place_of
from dynq_cli.query.sql.scalars import condition, scalar
from dynq_cli.query.sql.scope import Scope, Source
from dynq_cli.query.sql.shape import has_aggregate, has_query
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import BOOL, Type, common_type

# Makes sources of one side of a join: its tables become atoms of the body, its names stand in the scope.
Enter = Callable[[Body, Scope], None]
_PADDED = "its rows, and one row of NULLs for each value outside that finds none of them"
_FULL = "the rows of both sides, each with NULLs where it finds none of the other"
_ROWS = "the rows of the side that may be missing, before they are looked for"
_VALUES = "the values of the other side that are compared"
_TRUE = Scalar("TRUE", BOOL, False, ())
_FALSE = Scalar("FALSE", BOOL, False, ())


@dataclass(frozen=True)
class On:
    """The condition of a join: its conjuncts over the names of both sides, and the columns that USING names."""

    join: exp.Join
    condition: exp.Expr | None
    names: Callable[[Scope, Scope], list[exp.Expr]]

    def conjuncts(self, left: Scope, right: Scope) -> list[exp.Expr]:
        """The resolved conjuncts; the scopes are those of the two sides as they are written."""
        context = left.context
        both = Scope(context, left.around, [*left.sources, *right.sources], [*left.visible, *right.visible])
        found = self.names(left, right)
        for conjunct in conjuncts(self.condition) if self.condition is not None else ():
            if has_query(conjunct):
                message = "a subquery in the ON of an outer join is not supported"
                raise context.refuse(conjunct, message, "join with a derived table that has the subquery's condition")
            resolved = both.resolve(conjunct)
            if has_aggregate(resolved):
                message = "an aggregate cannot stand in WHERE or ON, which are about single rows"
                raise context.refuse(conjunct, message, "use HAVING")
            found.append(resolved)
        return found


@dataclass(frozen=True)
class _Compared:
    """outer op inner + offset: a scalar of a table of the side that keeps its rows, and one of the other side."""

    table: int
    outer: Scalar
    op: str
    inner: Scalar
    offset: Decimal
    at: int
    null_safe: bool = False


class _Names:
    """The names that a side's scope shows: what USING has made one stays one when the columns are those of a view."""

    def __init__(self, scope: Scope) -> None:
        self._scope = Scope(scope.context, scope.around)
        self._columns = [[key_of(e) for _, e in source.columns] for source in scope.sources]
        self._visible = [
            (next(i for i, s in enumerate(scope.sources) if s is source), name, e.copy())
            for source, name, e in scope.visible
        ]

    def moved(self, sources: list[Source]) -> Scope:
        """The same names over sources that have a column for each column of the side's sources."""
        new = {
            key: e
            for keys, source in zip(self._columns, sources, strict=True)
            for key, (_, e) in zip(keys, source.columns, strict=True)
        }

        def column(node: exp.Expr) -> exp.Expr:
            found = new.get(key_of(node))
            return node if found is None else found.copy()

        visible = [(sources[i], name, e.copy().transform(column)) for i, name, e in self._visible]
        return Scope(self._scope.context, self._scope.around, sources, visible)


@dataclass
class _Side:
    """The side that finds a match or none, as the one atom of a body; `sources` has a column of `table` per column."""

    body: Body
    table: Table
    sources: list[tuple[str, list[tuple[str, str]]]]
    compared: list[_Compared]
    names: _Names

    @property
    def columns(self) -> list[str]:
        """The columns that the query around can see."""
        return list(dict.fromkeys(column for _, columns in self.sources for _, column in columns))


def left_join(body: Body, scope: Scope, enter: Enter, on: On, turned: bool = False) -> Scope:
    """The names of the nullable side, which are columns of an atom that the body gets. The scope is that of the side
    that keeps its rows; `turned`: that one is written on the right."""
    body.context.stop_on_problems()
    name = body.context.view_name(body.draft.name, on.join.this.alias_or_name or "optional")
    side = _side(body, scope, enter, on, turned, name)
    if all(c.op == "=" for c in side.compared):
        keys, around = _by_equality(side), _around(body, side.compared, f"{name}.around")
    else:
        keys, around = _by_comparison(body, side, name)
    padded = _view(
        body,
        name,
        _with_padding(side, keys, around, name),
        on.join.this.alias_or_name or "optional",
        _PADDED,
        _key(body, side, keys),
    )
    body.add(padded)
    for (table, outer, at), column in zip(keys, padded.columns, strict=False):
        value = _term(body, table, outer)
        key = body.draft.term(body.atoms[padded.number], scalar(body.context, column_node(padded, column)), "on")
        body.draft.equal(value, key, at, null_safe=True)
    shown = dict(zip(side.columns, padded.columns[len(keys) :], strict=True))
    return side.names.moved(
        [Source(alias, [(n, column_node(padded, shown[c])) for n, c in columns]) for alias, columns in side.sources]
    )


def full_join(body: Body, scope: Scope, sides: tuple[Enter, Enter], on: On) -> tuple[Scope, Scope]:
    """The names of both sides, which are columns of an atom that the body gets."""
    context = body.context
    name = context.view_name(body.draft.name, on.join.this.alias_or_name or "full")
    kept, left = _inside(body, f"{name}.left"), Scope(context, scope.around)
    sides[0](kept, left)
    context.stop_on_problems()
    left_names = _Names(left)
    _join_mixed(kept, left)
    lefts = list(left.sources)
    rights = left_join(kept, left, sides[1], on).sources
    names, shown = _named([*lefts, *rights])
    for column, node in shown:
        kept.draft.output(column, _value(kept, node))
    first = _closed(kept)
    alone, right = _inside(body, f"{name}.right"), Scope(context, scope.around)
    sides[1](alone, right)
    context.stop_on_problems()
    right_names = _Names(right)
    _join_mixed(alone, right)
    side = _side(alone, right, sides[0], on, True, f"{name}.left")
    _refuse_match(alone, side)
    own: list[exp.Expr | None] = [e for source in right.sources for _, e in source.columns]
    for output, value in zip(first.columns, [None] * (len(shown) - len(own)) + own, strict=True):
        alone.draft.output(output.name, _null(output.type) if value is None else _value(alone, value))
    table = _view(body, name, _union(name, first, _closed(alone)), on.join.this.alias_or_name or "full", _FULL)
    body.add(table)
    sources = [Source(a, [(n, column_node(table, table.column(c))) for n, c in columns]) for a, columns in names]
    return left_names.moved(sources[: len(lefts)]), right_names.moved(sources[len(lefts) :])


def _inside(body: Body, name: str) -> Body:
    """A body whose views are those of another."""
    made = Body(body.context, Draft(name, "bag"), flat=False, views=body.views)
    made.draft.views = body.draft.views
    return made


def _closed(body: Body) -> ConjunctiveQuery:
    """The query of a body whose views stand around it."""
    return replace(normalise(body.draft), views=())


def _side(body: Body, scope: Scope, enter: Enter, on: On, turned: bool, name: str) -> _Side:
    sub, inner = _inside(body, f"{name}.rows"), Scope(body.context, scope.around)
    enter(sub, inner)
    body.context.stop_on_problems()
    seen = _Names(inner)
    never = False
    for conjunct in on.conjuncts(inner, scope) if turned else on.conjuncts(scope, inner):
        if _never_holds(conjunct):
            never = True
            continue
        for piece in sub.pieces(conjunct):
            sub.take(piece)
    _join_mixed(sub, inner)
    links: list[Link] = []
    outside: dict[int, list[Scalar]] = {}
    for piece in sub.foreign:
        if isinstance(piece, Filter) and piece.table in body.atoms:
            outside.setdefault(piece.table, []).append(condition(body.context, piece.node))
        elif isinstance(piece, Link) and _is_across(piece, body, sub):
            links.append(piece if piece.tables[1] in sub.atoms else piece.flipped())
        else:
            at = place_of(body.context, piece)
            message = "this condition of an outer join does not compare its two sides"
            raise body.context.refuse_at(at, message, "write it in a derived table that is one of the sides")
    sub, table, names, links = _one_atom(body, sub, inner, links, name)
    return _Side(sub, table, names, _compared(body, scope, links, outside, never), seen)


def _never_holds(node: exp.Expr) -> bool:
    """Whether a condition is FALSE or NULL, or has no columns and becomes that."""
    if node.find(exp.Column, exp.Func) is not None:
        return False
    value = bare(simplify(node.copy(), dialect="duckdb"))
    return isinstance(value, exp.Null) or (isinstance(value, exp.Boolean) and not value.this)


def _join_mixed(body: Body, scope: Scope) -> None:
    """Make the rows of a side a view of its own if a condition or a column of it is over several tables."""
    names = {n.lower() for source in scope.sources for n, _ in source.columns}
    columns = [e for source in scope.sources for _, e in source.columns] + [e for _, _, e in scope.visible]
    if body.mixed or any(len(tables_of(e)) > 1 for e in columns):
        join_rows(body, [scope], columns, names)


def _is_across(link: Link, body: Body, sub: Body) -> bool:
    return any(a in sub.atoms and b in body.atoms for a, b in (link.tables, link.tables[::-1]))


def _one_atom(
    body: Body, sub: Body, inner: Scope, links: list[Link], name: str
) -> tuple[Body, Table, list[tuple[str, list[tuple[str, str]]]], list[Link]]:
    """The side as one atom whose columns are all that is looked at: itself, or over a view of its rows."""
    exprs = [e for source in inner.sources for _, e in source.columns]
    if len(sub.draft.atoms) == 1 and all(isinstance(bare(e), exp.Column) for e in exprs):
        (number,) = sub.atoms
        names = [(s.alias, [(n, bare(e).name) for n, e in s.columns]) for s in inner.sources]
        return sub, body.context.tables[number], names, links
    by_key: dict[str, str] = {}
    for name_wished, node in [(n, e) for s in inner.sources for n, e in s.columns] + [("on", k.right) for k in links]:
        if key_of(node) not in by_key:
            by_key[key_of(node)] = _unique(name_wished, by_key.values())
            sub.draft.output(by_key[key_of(node)], _value(sub, node))
    table = _view(body, body.context.view_name(name, "rows"), _closed(sub), "rows", _ROWS)
    made = _inside(body, f"{name}.rows")
    made.add(table)
    names = [(s.alias, [(n, by_key[key_of(e)]) for n, e in s.columns]) for s in inner.sources]
    moved = [replace(k, right=column_node(table, table.column(by_key[key_of(k.right)]), k.at)) for k in links]
    return made, table, names, moved


def _compared(
    body: Body, scope: Scope, links: Sequence[Link], outside: dict[int, list[Scalar]], never: bool
) -> list[_Compared]:
    """What ON compares; a value of the side that keeps its rows is NULL where a condition of ON about it fails,
    as it does for all of them if ON never holds."""
    context = body.context
    found = []
    for k in links:
        table = tables_of(k.left)[0]
        sides = scalar(context, k.left), scalar(context, k.right)
        found.append(_Compared(table, sides[0], k.op, sides[1], k.offset, k.at, k.null_safe))
    shown = [t for _, _, e in scope.visible for t in tables_of(e) if t in body.atoms]
    some = (shown or list(body.atoms))[0]
    if never:
        outside.setdefault(some, []).append(_FALSE)
    for table, conditions in outside.items():
        at = next((i for i, c in enumerate(found) if c.table == table and c.op == "=" and not c.null_safe), None)
        if at is None:
            found.append(_Compared(table, _TRUE, "=", _TRUE, Decimal(0), 0))
            at = len(found) - 1
        found[at] = replace(found[at], outer=_where(conditions, found[at].outer))
    if not any(c.op == "=" for c in found):
        found.append(_Compared(some, _TRUE, "=", _TRUE, Decimal(0), 0))
    return found


def _where(conditions: Sequence[Scalar], value: Scalar) -> Scalar:
    text = " AND ".join(f"({c.sql})" for c in conditions)
    columns = {*value.columns, *(n for c in conditions for n in c.columns)}
    return Scalar(f"CASE WHEN {text} THEN {value.sql} END", value.type, True, tuple(sorted(columns)))


_Key = tuple[int, Scalar, int]


def _by_equality(side: _Side) -> list[_Key]:
    """The values compared by equality, each bound in the side's rows as the value outside that it equals."""
    atom = side.body.atoms[side.table.number]
    draft = side.body.draft
    keys: dict[tuple[int, str], _Key] = {}
    bound: dict[tuple[int, str], Scalar] = {}
    for c in side.compared:
        inner = sql.shifted_value(c.inner, c.offset)
        if inner.nullable and not c.null_safe:
            draft.filter(atom, sql.not_null(inner))
        known = bound.setdefault((c.table, c.outer.sql), inner)
        if known is not inner:
            draft.filter(atom, sql.same(known, inner) if c.null_safe else sql.compare(known, "=", inner))
        elif (c.table, c.outer.sql) not in keys:
            keys[c.table, c.outer.sql] = (c.table, c.outer, c.at)
            present = inner if c.null_safe else Scalar(inner.sql, inner.type, False, inner.columns)
            draft.output(f"on_{len(keys)}", draft.term(atom, present, "on"))
    return list(keys.values())


def _around(body: Body, compared: Iterable[_Compared], name: str) -> Body:
    """A body with the tables whose values are compared, as they are joined in the body, and without their filters
    where it is one."""
    tables = dict.fromkeys(c.table for c in compared)
    if len(tables) > 1:
        return replace(body, draft=body.draft.copy(name, "set"), flat=True, atoms=dict(body.atoms), foreign=[])
    made = Body(body.context, Draft(name, "set"), flat=True)
    for table in tables:
        made.add(body.context.tables[table])
    return made


def _by_comparison(body: Body, side: _Side, name: str) -> tuple[list[_Key], Body]:
    """Where ON compares by more than equality: the values outside are a view, and the side's rows those it joins."""
    values = _around(body, side.compared, f"{name}.values")
    keys = list({(c.table, c.outer.sql): (c.table, c.outer, c.at) for c in side.compared}.values())
    names: list[str] = []
    for number, outer, _ in keys:
        names.append(_unique(_wish(outer), names))
        values.draft.output(names[-1], _term(values, number, outer))
    table = _view(body, body.context.view_name(name, "values"), _closed(values), "values", _VALUES)
    columns = [column_node(table, column) for column in table.columns]
    held = {(t, outer.sql): scalar(body.context, c) for (t, outer, _), c in zip(keys, columns, strict=True)}
    moved = [replace(c, table=table.number, outer=held[c.table, c.outer.sql]) for c in side.compared]
    around = Body(body.context, Draft(f"{name}.around", "set"), flat=True)
    around.add(table)
    _refuse_match(around, replace(side, compared=moved))
    atom = side.body.atoms[side.table.number]
    side.body.add(table)
    for c in moved:
        _compare(side.body, c, atom)
    for made in (side.body, around):
        for column in columns:
            made.draft.output(column.name, made.term(column))
    return keys, around


def _key(body: Body, side: _Side, keys: list[_Key]) -> tuple[str, ...]:
    """The columns with the values that are compared, if each finds at most one row."""
    relation = body.context.spec.relation(side.table.source)
    held = {c.inner.sql for c in side.compared if c.op == "=" and not c.offset}
    is_key = relation is not None and relation.key and held >= {sql.quote(c) for c in relation.key}
    return tuple(f"on_{i + 1}" for i in range(len(keys))) if is_key else ()


def _with_padding(side: _Side, keys: list[_Key], around: Body, name: str) -> UnionQuery:
    """The side's rows, and one row of NULLs for each of the values around that finds none."""
    if not around.draft.outputs:
        _refuse_match(around, side)
        for i, (table, outer, _) in enumerate(keys):
            around.draft.output(f"on_{i + 1}", _term(around, table, outer))
    names = [output.name for output in side.body.draft.outputs]
    for column in side.columns:
        found = side.table.column(column)
        names.append(_unique(column, names))
        side.body.draft.output(names[-1], side.body.term(column_node(side.table, found)))
        around.draft.output(names[-1], _null(found.type))
    return _union(name, _closed(side.body), _closed(around))


def _refuse_match(body: Body, side: _Side) -> None:
    """Keep only the rows of a body that find no match on a side."""
    atom = body.adopt(side.body, "anti")
    for c in side.compared:
        _compare(body, c, atom)


def _compare(body: Body, c: _Compared, atom: int) -> None:
    outer, inner = _term(body, c.table, c.outer), body.draft.term(atom, c.inner, _wish(c.inner))
    if c.op == "=":
        body.draft.equal(outer, inner, c.at, c.offset, null_safe=c.null_safe)
    else:
        body.draft.compare(outer, c.op, inner, c.at, c.offset)


def _union(name: str, *members: ConjunctiveQuery) -> UnionQuery:
    """The rows of all members; the first one names the columns."""
    columns = []
    for several in zip(*(m.columns for m in members), strict=True):
        kind = reduce(_wider, (c.type for c in several))
        nullable = any(c.nullable for c in several)
        columns.append(OutputColumn(several[0].name, kind, nullable, "variable", several[0].name))
    return UnionQuery(name, members, tuple(columns), "bag")


def _wider(a: Type, b: Type) -> Type:
    common = common_type(a, b)
    assert common is not None, "what is compared has a common type"
    return common


def _view(body: Body, name: str, query: Query, alias: str, note: str, key: tuple[str, ...] = ()) -> Table:
    columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
    body.draft.views.append(View(name, columns, query, note, key))
    return body.context.table(alias, name, columns)


def _term(body: Body, table: int, value: Scalar) -> Term:
    return body.draft.term(body.atoms[table], value, _wish(value))


def _wish(value: Scalar) -> str:
    return value.columns[0] if value.columns else "on"


def _value(body: Body, node: exp.Expr) -> Term | Expression:
    """A column of a side: over one of its tables, or a constant."""
    if tables_of(node):
        return body.term(node)
    made = scalar(body.context, node)
    return Expression(made.sql.replace("{", "{{").replace("}", "}}"), (), made.type, made.nullable)


def _null(kind: Type) -> Expression:
    return Expression(f"CAST(NULL AS {kind.sql})", (), kind, True)


def _named(sources: Sequence[Source]) -> tuple[list[tuple[str, list[tuple[str, str]]]], list[tuple[str, exp.Expr]]]:
    """A name of its own for every column of some sources: by source, and with its expression."""
    taken: list[str] = []
    names, shown = [], []
    for source in sources:
        own = []
        for name, node in source.columns:
            taken.append(_unique(name, taken))
            own.append((name, taken[-1]))
            shown.append((taken[-1], node))
        names.append((source.alias, own))
    return names, shown


def _unique(wish: str, taken: Iterable[str]) -> str:
    known = {t.lower() for t in taken}
    name, count = wish, 1
    while name.lower() in known:
        count += 1
        name = f"{wish}_{count}"
    return name
