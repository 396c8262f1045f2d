"""STRING_AGG → a window function over the rows of the groups, whose value every row of a group has.

    SELECT a, STRING_AGG(b, ',' ORDER BY c) AS s FROM R GROUP BY a

is a view of the rows (a, b, c), one with s for each order, computed for a group from all of its rows, and MIN(s) per a.
A change of a group computes its texts again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from dynq_cli.query.draft import Draft
from dynq_cli.query.normal_form import ColumnOrder, Query, View, Window, WindowFunction
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.context import Table, column_node, key_of, tables_of
from dynq_cli.query.sql.scalars import text_of, typed
from dynq_cli.query.sql.shape import outside_queries
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64

_HIDDEN = (Column("_partition", INT64), Column("_place", INT64))
_WHOLE = 'OVER (PARTITION BY "_partition" ORDER BY "_place" ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)'


def has_text(node: exp.Expr) -> bool:
    """Whether a node calls STRING_AGG of groups."""
    return any(True for _ in _calls(node))


def _calls(node: exp.Expr) -> Iterator[exp.GroupConcat]:
    for part in outside_queries(node):
        if isinstance(part, exp.GroupConcat):
            yield part


class Texts:
    """The rows of groups with their texts: `body` has them as its one atom, and `over` says what a node is there."""

    def __init__(self, body: Body, keys: Sequence[exp.Expr], nodes: Sequence[exp.Expr]) -> None:
        self.context = body.context
        self._leaves: dict[str, str] = {}
        self._found: list[tuple[exp.Expr, str]] = []
        self._made: dict[str, str] = {}
        self._keys = {key_of(key) for key in keys}
        for key in keys:
            self._leaf(key)
        for node in nodes:
            self._collect(node)
        self.body, self._table = self._built(body, keys, nodes)

    def over(self, node: exp.Expr) -> exp.Expr:
        """A resolved expression over the rows with their texts."""
        holder = exp.Paren(this=node.copy())
        self._replace(holder.this)
        inner: exp.Expr = holder.this
        return inner.pop()

    def _leaf(self, node: exp.Expr) -> None:
        tables = tables_of(node)
        if len(tables) > 1:
            message = "STRING_AGG over columns of several tables is not supported"
            raise self.context.refuse(node, message, "join them in a derived table, and aggregate that")
        if tables and key_of(node) not in self._leaves:
            self._leaves[key_of(node)] = f"c{len(self._leaves) + 1}"
            self._found.append((node, self._leaves[key_of(node)]))

    def _collect(self, node: exp.Expr) -> None:
        if key_of(node) in self._keys or isinstance(node, exp.Column):
            self._leaf(node)
        elif isinstance(node, exp.GroupConcat):
            value, keys = self._parts(node)
            self._leaf(value)
            for key in keys:
                self._leaf(key.this)
        else:
            for child in node.iter_expressions():
                self._collect(child)

    def _parts(self, call: exp.GroupConcat) -> tuple[exp.Expr, list[exp.Ordered]]:
        """The value of a call, NULL where FILTER leaves a row out, and the keys of its order."""
        value, order = (call.this.this, call.this.expressions) if isinstance(call.this, exp.Order) else (call.this, [])
        if isinstance(value, exp.Distinct):
            message = "STRING_AGG(DISTINCT …) is not supported"
            raise self.context.refuse(call, message, "aggregate a derived table with SELECT DISTINCT")
        if not tables_of(value):
            raise self.context.refuse(call, "STRING_AGG of a constant", "name a column")
        if isinstance(call.parent, exp.Filter):
            condition = call.parent.expression.this
            value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
        return value, [key for key in order if tables_of(key)]

    def _built(self, body: Body, keys: Sequence[exp.Expr], nodes: Sequence[exp.Expr]) -> tuple[Body, Table]:
        name = body.draft.name
        body.draft.name, body.draft.semantics = self.context.view_name(name, "rows"), "bag"
        for node, leaf in self._found:
            body.draft.output(leaf, body.term(node, leaf))
        query: Query = normalise(body.draft)
        partition = tuple(dict.fromkeys(self._leaves[key_of(key)] for key in keys))
        orders: dict[tuple[ColumnOrder, ...], list[tuple[str, str, exp.Expr]]] = {}
        for call in (call for node in nodes for call in _calls(node)):
            around = call.parent if isinstance(call.parent, exp.Filter) else call
            if key_of(around) in self._made:
                continue
            self._made[key_of(around)] = f"s{len(self._made) + 1}"
            value, order = self._parts(call)
            argument = self._leaves[key_of(value)]
            by = [ColumnOrder(self._leaves[key_of(k.this)], bool(k.args.get("desc")), _nulls_first(k)) for k in order]
            kept: dict[str, ColumnOrder] = {}
            for each in (*by, ColumnOrder(argument)):
                kept.setdefault(each.column, each)
            separator = call.args.get("separator") or exp.Literal.string(",")
            sql = f'string_agg("{argument}", {text_of(separator)}) {_WHOLE}'
            orders.setdefault(tuple(kept.values()), []).append((self._made[key_of(around)], sql, call))
        made = body
        for window_order, several in orders.items():
            if made is not body:
                query = normalise(made.draft)
            columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
            functions = tuple(
                WindowFunction(text, sql, typed(self.context, sql, (*columns, *_HIDDEN), call), True)
                for text, sql, call in several
            )
            columns = (*columns, *(Column(f.name, f.type, f.nullable) for f in functions))
            view = self.context.view_name(name, "texts")
            made = Body(self.context, Draft(self.context.view_name(name, "rows"), "bag"), flat=False)
            made.draft.views.append(
                View(view, columns, query, window=Window(partition, window_order, None, 0, functions))
            )
            table = self.context.table(view, view, columns)
            made.add(table)
            if window_order != list(orders)[-1]:
                for column in columns:
                    made.draft.output(column.name, made.term(column_node(table, column), column.name))
        made.draft.name = name
        return made, table

    def _replace(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Filter | exp.GroupConcat) and key_of(node) in self._made:
            text = exp.Min(this=column_node(self._table, self._table.column(self._made[key_of(node)])))
            text.meta["start"] = self.context.at(node)
            node.replace(text)
        elif key_of(node) in self._leaves and (key_of(node) in self._keys or isinstance(node, exp.Column)):
            node.replace(
                column_node(self._table, self._table.column(self._leaves[key_of(node)]), self.context.at(node))
            )
        else:
            for child in list(node.iter_expressions()):
                self._replace(child)


def _nulls_first(key: exp.Ordered) -> bool:
    return bool(key.args.get("nulls_first"))
