"""Aggregates that are computed again → window functions over the rows of the groups, whose value every row has.

    SELECT a, STRING_AGG(b, ',' ORDER BY c) AS s FROM R GROUP BY a

is a view of the rows (a, b, c), one with s for each order, computed for a group from all of its rows, and MIN(s) per a.
A change of a group computes its texts again. So it is with other aggregates that DuckDB computes from all rows of a
group (`aggregates.recomputed`), and with variances, covariances and regressions of floats, whose sums would cancel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from dynq_cli.query.aggregates.definition import Additive, Basic, Recomputed
from dynq_cli.query.draft import Draft
from dynq_cli.query.normal_form import ColumnOrder, Query, View, Window, WindowFunction
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.calls import arguments_of, definition_of
from dynq_cli.query.sql.context import Context, Table, column_node, key_of, tables_of
from dynq_cli.query.sql.scalars import scalar, text_of, typed
from dynq_cli.query.sql.shape import outside_queries
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64

_HIDDEN = (Column("_partition", INT64), Column("_place", INT64))
_WHOLE = 'OVER (PARTITION BY "_partition" ORDER BY "_place" ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)'


def has_text(context: Context, node: exp.Expr) -> bool:
    """Whether a node calls STRING_AGG of groups, or another aggregate that is computed again."""
    return any(True for _ in _calls(context, node))


def _calls(context: Context, node: exp.Expr) -> Iterator[exp.Expr]:
    for part in outside_queries(node):
        if is_recomputed(context, part):
            yield part


def is_recomputed(context: Context, call: exp.Expr) -> bool:
    """Whether a resolved node is an aggregate that is computed again from the rows of its group."""
    definition = definition_of(call)
    if isinstance(definition, Additive) and definition.takes == "exact numbers":
        given = [a for a in arguments_of(call) if len(tables_of(a)) == 1 and not isinstance(a, exp.Distinct)]
        return any(scalar(context, argument).type.is_float for argument in given)
    return isinstance(call, exp.GroupConcat) or isinstance(definition, Recomputed)


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
            message = "STRING_AGG, and what else is computed again, over columns of several tables is not supported"
            raise self.context.refuse(node, message, "join them in a derived table, and aggregate that")
        if tables and key_of(node) not in self._leaves:
            self._leaves[key_of(node)] = f"c{len(self._leaves) + 1}"
            self._found.append((node, self._leaves[key_of(node)]))

    def _collect(self, node: exp.Expr) -> None:
        if key_of(node) in self._keys or isinstance(node, exp.Column):
            self._leaf(node)
        elif is_recomputed(self.context, node):
            values, keys = self._parts(node)
            for value in values:
                self._leaf(value)
            for key in keys:
                self._leaf(key.this)
        else:
            for child in node.iter_expressions():
                self._collect(child)

    def _parts(self, call: exp.Expr) -> tuple[list[exp.Expr], list[exp.Ordered]]:
        """The values that a call reads, NULL where FILTER leaves a row out, and the keys of its order."""
        is_text = isinstance(call, exp.GroupConcat)
        definition = definition_of(call)
        name = "STRING_AGG" if is_text or definition is None else definition.name.upper()
        values = [call.this] if is_text else arguments_of(call)
        order: list[exp.Ordered] = []
        if isinstance(values[0] if values else None, exp.Order):
            values, order = [values[0].this], values[0].expressions
        if any(isinstance(value, exp.Distinct) for value in values):
            message = f"{name}(DISTINCT …) is not supported"
            raise self.context.refuse(call, message, "aggregate a derived table with SELECT DISTINCT")
        if definition is not None and not isinstance(definition, Basic) and len(values) != len(definition.arguments):
            several = len(definition.arguments)
            raise self.context.refuse(call, f"{name} takes {several} argument{'s' if several != 1 else ''}")
        if not all(map(tables_of, values)):
            raise self.context.refuse(call, f"{name} of a constant", "name a column")
        if isinstance(call.parent, exp.Filter):
            condition = call.parent.expression.this
            values[0] = exp.Case(ifs=[exp.If(this=condition.copy(), true=values[0].copy())])
        return values, [key for key in order if tables_of(key)]

    def _built(self, body: Body, keys: Sequence[exp.Expr], nodes: Sequence[exp.Expr]) -> tuple[Body, Table]:
        name = body.draft.name
        body.draft.name, body.draft.semantics = self.context.view_name(name, "rows"), "bag"
        for node, leaf in self._found:
            body.draft.output(leaf, body.term(node, leaf))
        query: Query = normalise(body.draft)
        partition = tuple(dict.fromkeys(self._leaves[key_of(key)] for key in keys))
        orders: dict[tuple[ColumnOrder, ...], list[tuple[str, str, exp.Expr]]] = {}
        for call in (call for node in nodes for call in _calls(self.context, node)):
            around = call.parent if isinstance(call.parent, exp.Filter) else call
            if key_of(around) in self._made:
                continue
            self._made[key_of(around)] = f"s{len(self._made) + 1}"
            values, order = self._parts(call)
            arguments = [self._leaves[key_of(value)] for value in values]
            by = [ColumnOrder(self._leaves[key_of(k.this)], bool(k.args.get("desc")), _nulls_first(k)) for k in order]
            kept: dict[str, ColumnOrder] = {}
            for each in (*by, *map(ColumnOrder, arguments)):
                kept.setdefault(each.column, each)
            sql = f"{_called(call, arguments)} {_WHOLE}"
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
        if key_of(node) in self._made:
            text: exp.Expr = exp.Min(this=column_node(self._table, self._table.column(self._made[key_of(node)])))
            definition = definition_of(node.this if isinstance(node, exp.Filter) else node)
            if isinstance(definition, Recomputed) and definition.of_nothing != "NULL":
                text = exp.Coalesce(this=text, expressions=[exp.Literal.number(definition.of_nothing)])
            text.meta["start"] = self.context.at(node)
            node.replace(text)
        elif key_of(node) in self._leaves and (key_of(node) in self._keys or isinstance(node, exp.Column)):
            node.replace(
                column_node(self._table, self._table.column(self._leaves[key_of(node)]), self.context.at(node))
            )
        else:
            for child in list(node.iter_expressions()):
                self._replace(child)


def _called(call: exp.Expr, arguments: Sequence[str]) -> str:
    """The call of DuckDB's function over columns."""
    given = [f'"{name}"' for name in arguments]
    if isinstance(call, exp.GroupConcat):
        return f"string_agg({given[0]}, {text_of(call.args.get('separator') or exp.Literal.string(','))})"
    definition = definition_of(call)
    assert definition is not None
    return f"{definition.name}({', '.join(given)})"


def _nulls_first(key: exp.Ordered) -> bool:
    return bool(key.args.get("nulls_first"))
