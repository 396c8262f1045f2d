"""Window functions: views of the rows with what is computed from their partitions.

    SELECT a, SUM(b) OVER (PARTITION BY a) AS s, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM R

An aggregate over whole partitions is a group that its rows are joined with: a view of the rows (a, b), one of their
groups (a, s), and a join of the two, where NULL joins NULL. Other functions are views with a `Window`, one after the
other, one for each order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dynq_cli.query.draft import Draft
from dynq_cli.query.normal_form import ColumnOrder, Query, View, Window, WindowFunction
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.aggregates import Groups, is_basic
from dynq_cli.query.sql.build import Body, QueryContext
from dynq_cli.query.sql.context import Table, bare, column_node, key_of, tables_of
from dynq_cli.query.sql.items import Item
from dynq_cli.query.sql.joined_rows import join_rows
from dynq_cli.query.sql.scalars import text_of, typed
from dynq_cli.query.sql.shape import has_aggregate, has_query, has_window, window_parts
from dynq_cli.query.sql.window_functions import check_window, is_whole, never_null, reach_of, window_sql
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64

# The rows of a SELECT before its places matter: their query, given its columns and its name.
RowsOf = Callable[[list[Item], str], Query]
_HIDDEN = (Column("_partition", INT64), Column("_place", INT64))


@dataclass(frozen=True)
class _Leaves:
    """The columns of the rows: expressions without window functions, by text; `groups`: the columns that aggregates of
    whole partitions are, by the text of their windows."""

    items: dict[str, Item]
    groups: dict[str, exp.Column] = field(default_factory=dict)

    def collect(self, node: exp.Expr, at: int) -> None:
        if isinstance(node, exp.Window):
            for part in window_parts(node):
                self.collect(part, at)
        elif has_window(node):
            for child in node.iter_expressions():
                self.collect(child, at)
        elif has_aggregate(node) or tables_of(node):
            key = key_of(node)
            self.items.setdefault(key, Item(f"c{len(self.items) + 1}", node, at))

    def over(self, node: exp.Expr, table: Table, made: dict[str, str]) -> exp.Expr:
        """The expression over a view of the rows; `made` names its columns of window functions, by text."""
        holder = exp.Paren(this=node.copy())
        self._replace(holder.this, table, made)
        inner: exp.Expr = holder.this
        return inner.pop()

    def _replace(self, node: exp.Expr, table: Table, made: dict[str, str]) -> None:
        if isinstance(node, exp.Window):
            key = key_of(node)
            if key in self.groups:
                node.replace(self.groups[key].copy())
            elif key in made:
                node.replace(column_node(table, table.column(made[key])))
            else:
                for part in list(window_parts(node)):
                    self._replace(part, table, made)
        elif has_window(node):
            for child in list(node.iter_expressions()):
                self._replace(child, table, made)
        elif has_aggregate(node) or tables_of(node):
            node.replace(column_node(table, table.column(self.items[key_of(node)].name)))


def windowed(
    context: QueryContext,
    name: str,
    inner: str,
    items: Sequence[Item],
    qualify: Sequence[exp.Expr],
    rows: RowsOf,
) -> tuple[Body, list[exp.Expr]]:
    """A body over the rows with their window functions, as far as QUALIFY keeps them, and the items over it."""
    for item in items:
        if has_query(item.node):
            message = "a subquery in the SELECT list beside GROUP BY and window functions is not supported"
            raise context.refuse(item.node, message, "put the groups into a derived table")
    for node in (*(item.node for item in items), *qualify):
        for window in node.find_all(exp.Window):
            with context.gather():
                check_window(context, window)
    context.stop_on_problems()
    leaves = _Leaves({})
    for item in items:
        leaves.collect(item.node, item.at)
    for condition in qualify:
        leaves.collect(condition, context.at(condition))
    if not leaves.items:
        first = items[0]
        raise context.refuse_at(first.at, "no column is read", "number the rows of columns: ORDER BY inside OVER (…)")
    query: Query = rows(list(leaves.items.values()), context.view_name(name, "rows"))
    prefix = _prefix(context, items, qualify)
    found: dict[str, exp.Window] = {}
    for node in (*(item.node for item in items), *(() if prefix else qualify)):
        for window in node.find_all(exp.Window):
            found.setdefault(key_of(window), window)
    groups = _PartitionGroups(context, leaves, name, query, found)
    body, table, made = _placed(context, leaves, name, groups, prefix)
    body.draft.name = inner
    body.draft.views[:0] = groups.views
    groups.join(body, table)
    for condition in () if prefix else qualify:
        over = leaves.over(condition, table, made)
        over.meta["start"] = context.at(condition)
        for piece in body.pieces(over):
            body.take(piece)
    nodes = [leaves.over(item.node, table, made) for item in items]
    if body.mixed or any(len(tables_of(node)) > 1 for node in nodes):
        nodes = list(map(join_rows(body, [], nodes, ()), nodes))
    return body, nodes


def _placed(
    context: QueryContext, leaves: _Leaves, name: str, groups: _PartitionGroups, prefix: tuple[exp.Window, int] | None
) -> tuple[Body, Table, dict[str, str]]:
    """A body over the rows with their functions of places; their columns by text."""
    several: dict[tuple[object, ...], list[str]] = {}
    for key, window in groups.others.items():
        order = window.args.get("order")
        asked = (tuple(map(key_of, window.args.get("partition_by") or ())), order and key_of(order))
        several.setdefault(asked, []).append(key)
    made: dict[str, str] = {}
    windows: list[tuple[list[str], exp.Window, int | None]] = [
        (keys, groups.others[keys[0]], None) for keys in several.values()
    ]
    if prefix:
        windows.append(([], *prefix))
    query = groups.rows(name)
    if not windows:
        body, table = groups.body(context.view_name(name, "rows"))
        return body, table, made
    for keys, window, limit in windows:
        columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
        before = context.table("rows", "rows", columns)
        functions = []
        for key in keys:
            made_name = f"w{len(made) + 1}"
            functions.append(_function(context, leaves, before, groups.others[key], made_name))
            made[key] = made_name
        partition, order = _partition(leaves, before, window), _window_order(leaves, before, window)
        columns = (*columns, *(Column(f.name, f.type, f.nullable) for f in functions))
        view = context.view_name(name, "places")
        body = Body(context, Draft(context.view_name(name, "rows"), "bag"), flat=False)
        table = context.table(view, view, columns)
        needed = "functions of the places of rows" if groups.views else ""
        placed = Window(partition, order, limit, 0, tuple(functions))
        body.draft.views.append(View(view, columns, query, needed, window=placed))
        body.add(table)
        if (keys, window, limit) != windows[-1]:
            for column in columns:
                body.draft.output(column.name, body.term(column_node(table, column), column.name))
            query = normalise(body.draft)
    return body, table, made


class _PartitionGroups:
    """Aggregates over whole partitions, as groups of the rows; `others` are all other windows."""

    def __init__(
        self, context: QueryContext, leaves: _Leaves, name: str, query: Query, windows: dict[str, exp.Window]
    ) -> None:
        self.context = context
        self.others = windows
        self.views: list[View] = []
        self._query = query
        self._joined: list[tuple[tuple[str, ...], Table]] = []
        whole = {key: window for key, window in windows.items() if is_whole(window)}
        if not whole:
            return
        self._source = context.view_name(name, "rows")
        self._columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
        self.views.append(View(self._source, self._columns, query))
        self.others = {key: window for key, window in windows.items() if key not in whole}
        several: dict[tuple[str, ...], list[str]] = {}
        before = context.table("rows", self._source, self._columns)
        for key, window in whole.items():
            several.setdefault(_partition(leaves, before, window), []).append(key)
        for partition, keys in several.items():
            self._add(leaves, context.view_name(name, "partitions"), partition, {key: whole[key] for key in keys})

    def body(self, name: str) -> tuple[Body, Table]:
        """A body whose one atom is the rows."""
        body = Body(self.context, Draft(name, "bag"), flat=False)
        table = self.context.table("rows", self._source, self._columns)
        body.add(table)
        return body, table

    def rows(self, name: str) -> Query:
        """The rows, as a query over their view where there is one."""
        if not self.views:
            return self._query
        body, table = self.body(self.context.view_name(name, "rows"))
        for column in table.columns:
            body.draft.output(column.name, body.term(column_node(table, column), column.name))
        return normalise(body.draft)

    def join(self, body: Body, table: Table) -> None:
        """Join the rows of a body with the groups of their partitions."""
        for partition, groups in self._joined:
            body.add(groups)
            for key, column in zip(partition, groups.columns, strict=False):
                mine = body.term(column_node(table, table.column(key)), key)
                theirs = body.term(column_node(groups, column), column.name)
                body.draft.equal(mine, theirs, 0, null_safe=mine.scalar.nullable)

    def _add(self, leaves: _Leaves, name: str, partition: tuple[str, ...], windows: dict[str, exp.Window]) -> None:
        body, table = self.body(name)
        keys = [column_node(table, table.column(key)) for key in partition]
        terms = {key_of(node): body.term(node, node.name) for node in keys} or None
        body.draft.group_by = None if terms is None else list(terms.values())
        groups = Groups(body, terms)
        calls = {key: leaves.over(window, table, {}).this for key, window in windows.items()}
        for call in calls.values():
            groups.prepare(call)
        for node in keys:
            body.draft.output(node.name, groups.value(node, node.name))
        names = {key: f"g{i}" for i, key in enumerate(calls, 1)}
        for key, call in calls.items():
            if is_basic(call):
                groups.aggregate(call, names[key])
            body.draft.output(names[key], groups.value(call, names[key]))
        query = normalise(body.draft)
        columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
        made = self.context.table("partitions", name, columns)
        self.views.append(View(name, columns, query, "aggregates of whole partitions"))
        self._joined.append((partition, made))
        leaves.groups.update({key: column_node(made, made.column(names[key])) for key in calls})


def _prefix(context: QueryContext, items: Sequence[Item], qualify: Sequence[exp.Expr]) -> tuple[exp.Window, int] | None:
    """The window and the number of rows of `QUALIFY row_number() OVER (…) <= k`, which no column shows."""
    if len(qualify) != 1 or not isinstance(bare(qualify[0]), exp.LTE | exp.LT | exp.EQ):
        return None
    condition = bare(qualify[0])
    window, bound = bare(condition.this), bare(condition.expression)
    if not isinstance(window, exp.Window) or not isinstance(window.this, exp.RowNumber):
        return None
    if not isinstance(bound, exp.Literal) or bound.is_string or not bound.this.isdigit():
        return None
    if any(key_of(w) == key_of(window) for item in items for w in item.node.find_all(exp.Window)):
        return None
    most = int(bound.this) - isinstance(condition, exp.LT)
    if isinstance(condition, exp.EQ) and most != 1:
        return None
    return window, max(0, most)


def _partition(leaves: _Leaves, table: Table, window: exp.Window) -> tuple[str, ...]:
    columns = [leaves.over(node, table, {}) for node in window.args.get("partition_by") or ()]
    return tuple(dict.fromkeys(bare(c).name for c in columns if isinstance(bare(c), exp.Column)))


def _window_order(leaves: _Leaves, table: Table, window: exp.Window) -> tuple[ColumnOrder, ...]:
    order = window.args.get("order")
    found: dict[str, ColumnOrder] = {}
    for key in order.expressions if order is not None else ():
        column = bare(leaves.over(key.this, table, {}))
        if isinstance(column, exp.Column):
            made = ColumnOrder(column.name, bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
            found.setdefault(column.name, made)
    return tuple(found.values())


def _function(context: QueryContext, leaves: _Leaves, table: Table, window: exp.Window, name: str) -> WindowFunction:
    over = leaves.over(window, table, {})
    assert isinstance(over, exp.Window)
    sql = window_sql(over)
    kind = typed(context, sql, (*table.columns, *_HIDDEN), window)
    reach = reach_of(over, lambda node: typed(context, text_of(node), table.columns, window))
    return WindowFunction(name, sql, kind, not never_null(window), reach)
