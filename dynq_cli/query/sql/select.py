"""One SELECT → a conjunctive query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from dynq_cli.query.draft import Draft, DraftAggregate, Expression, Term
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn, Query, UnionQuery, VariableOrder
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.sql.aggregated_texts import Texts, has_text
from dynq_cli.query.sql.aggregates import Groups, expression, is_basic
from dynq_cli.query.sql.build import Body, QueryContext, take_condition
from dynq_cli.query.sql.by_places import compile_by_places
from dynq_cli.query.sql.context import Ctes, Table, bare, column_node, key_of, many, tables_of
from dynq_cli.query.sql.group_marks import GroupMarks
from dynq_cli.query.sql.grouping_sets import Grouping, grouping_sets, has_grouping_sets
from dynq_cli.query.sql.items import Item, as_member, check_names, select_items
from dynq_cli.query.sql.joined_rows import is_mixed, join_rows, mentioned
from dynq_cli.query.sql.order import order_keys
from dynq_cli.query.sql.predicates import conjuncts
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import (
    aggregates_of,
    has_aggregate,
    has_query,
    has_window,
    is_aggregating,
    is_by_places,
    is_distinct,
)
from dynq_cli.query.sql.sources import add_from, view_table, with_ctes
from dynq_cli.query.sql.values import with_values
from dynq_cli.spec.model import Semantics
from dynq_cli.spec.types import BOOL

Member = Literal["first", "later"]


def compile_select(
    context: QueryContext,
    select: exp.Select,
    name: str,
    ctes: Ctes,
    asked: Semantics | None,
    around: Scope | None = None,
    member: Member | None = None,
) -> Query:
    """`asked` overrides the semantics that the SELECT itself has; `around` is in sight only to
    say of a name that it belongs to the query around. `member` is which one of a union it is."""
    if is_by_places(select):
        is_bag = is_aggregating(select) or has_window(select) or not is_distinct(select)
        made = _Select(context, select, name, ctes, "bag" if is_bag else "set", around, member)
        return made.by_places(asked)
    if has_grouping_sets(select):
        return _Select(context, select, name, ctes, asked or "bag", around, member).by_sets(asked)
    if is_aggregating(select):
        return _Select(context, select, name, ctes, asked or "bag", around, member).grouped(asked is None)
    semantics: Semantics = asked or ("set" if is_distinct(select) else "bag")
    return _Select(context, select, name, ctes, semantics, around, member).plain()


class _Select:
    def __init__(
        self,
        context: QueryContext,
        select: exp.Select,
        name: str,
        ctes: Ctes,
        semantics: Semantics,
        around: Scope | None,
        member: Member | None,
    ) -> None:
        self.context = context
        self.select = select
        self.name = name
        self.ctes = with_ctes(select, ctes)
        self.around = around
        self.member = member
        self.grouping: Grouping | None = None
        flat = semantics == "set" and not is_aggregating(select)
        self.body = Body(context, Draft(name, semantics), flat)

    def _from_and_items(self) -> tuple[Scope, list[Item]]:
        scope = add_from(self.body, self.select, self.ctes, self.around)
        items = select_items(scope, self.select)
        if self.member is not None:
            items = as_member(items, first=self.member == "first")
        check_names(scope, items)
        condition = self.select.args.get("where")
        if condition is not None:
            take_condition(self.body, scope, condition.this, self.ctes)
        for i, item in enumerate(items):
            if has_query(item.node):
                with self.context.gather():
                    items[i] = self._with_values(scope, item, i)
        if not self.context.problems and (self.body.mixed or self._is_mixed(scope, items)):
            shown = [item.node for item in items if not has_query(item.node)]
            moved = join_rows(self.body, [scope], shown, mentioned(self.select))
            items = [item if has_query(item.node) else replace(item, node=moved(item.node)) for item in items]
        assert not self.body.foreign, f"conditions on other tables: {self.body.foreign}"
        return scope, items

    def _with_values(self, scope: Scope, item: Item, index: int) -> Item:
        """An item with the values of its subqueries, as far as rows have them before they are grouped."""
        if not is_aggregating(self.select) or self._is_group(item, index):
            made = with_values(self.body, scope, item.node, self.ctes)
            scope.aliases.setdefault(item.name.lower(), made)
            return replace(item, node=made)
        calls = [n for n in aggregates_of(item.node) if has_query(n)]
        if not calls:
            return item
        holder = exp.Paren(this=item.node.copy())
        given: dict[str, exp.Expr] = {}
        for call in [n for n in aggregates_of(holder) if has_query(n)]:
            mark = f"aggregate{len(given) + 1}"
            given[mark] = with_values(self.body, scope, call, self.ctes)
            call.replace(exp.Placeholder(this=mark))
        if has_query(holder.this):
            # GroupMarks says so.
            return item
        return replace(item, node=with_values(self.body, scope, holder.this, self.ctes, given=given))

    def _is_group(self, item: Item, index: int) -> bool:
        """Whether GROUP BY names an item by its position or its name."""
        group = self.select.args.get("group")
        if group is None or has_aggregate(item.node):
            return False
        keys = [bare(key) for key in group.expressions]
        named = any(isinstance(k, exp.Column) and not k.table and k.name.lower() == item.name.lower() for k in keys)
        at_place = any(isinstance(k, exp.Literal) and k.this == str(index + 1) for k in keys)
        return bool(group.args.get("all")) or named or at_place

    def _is_mixed(self, scope: Scope, items: list[Item]) -> bool:
        """Whether something that is computed from a row reads several tables."""
        if len(self.body.draft.atoms) < 2:
            return False
        groups = None
        if is_aggregating(self.select):
            keys = list(self._group_nodes(scope, items))
            if any(len(tables_of(key)) > 1 for key in keys):
                return True
            groups = {key_of(key) for key in keys}
        nodes = [item.node for item in items if not has_query(item.node)]
        distinct = self.select.args.get("distinct")
        clauses = [self.select.args.get(part) for part in ("having", "qualify", "order")]
        clauses.append(distinct.args.get("on") if distinct is not None else None)
        for clause in clauses:
            for key in (clause.expressions or [clause.this]) if clause is not None else ():
                with suppress(QueryProblems):
                    node = key.this if isinstance(key, exp.Ordered) else key
                    if not has_query(node):
                        nodes.append(scope.resolve(node))
        return any(is_mixed(self.body, node, groups) for node in nodes)

    def by_places(self, asked: Semantics | None) -> ConjunctiveQuery:
        scope, items = self._from_and_items()
        self.context.stop_on_problems()

        def rows(shown: list[Item], name: str) -> ConjunctiveQuery:
            self.body.draft.name = self.name = name
            if not is_aggregating(self.select):
                return self._rows(scope, shown)
            if has_grouping_sets(self.select):
                is_set = is_distinct(self.select) and not has_window(self.select)
                return self._over_sets(self._sets(scope, items, shown), name, "set" if is_set else "bag")[1]
            return self._groups(scope, items, shown, default=False)

        return compile_by_places(self.context, self.select, self.name, scope, items, rows, asked)

    def plain(self) -> ConjunctiveQuery:
        return self._rows(*self._from_and_items(), is_ordered=True)

    def _rows(self, scope: Scope, items: list[Item], *, is_ordered: bool = False) -> ConjunctiveQuery:
        values: list[Term | Expression | None] = []
        for item in items:
            values.append(None)
            with self.context.gather():
                values[-1] = value = self._row_value(item)
                self.body.draft.output(item.name, value)
        if is_ordered:
            self._order(scope, items, list(values))
        self.context.stop_on_problems()
        return normalise(self.body.draft)

    def _row_value(self, item: Item) -> Term | Expression:
        if has_query(item.node):
            # Its value has not been made, since there are problems.
            raise QueryProblems(self.context.problems)
        node, tables = item.node, tables_of(item.node)
        if len(tables) == 1:
            return self.body.term(node, item.name)
        if tables:
            # Rows have not been joined, since there are problems.
            raise QueryProblems(self.context.problems)
        return expression(self.body, bare(node), [], node)

    def grouped(self, default: bool) -> ConjunctiveQuery:
        """`default`: the semantics is the SELECT's own, so groups without aggregates may become a set."""
        scope, items = self._from_and_items()
        return self._groups(scope, items, items, default=default, is_ordered=True)

    def by_sets(self, asked: Semantics | None) -> Query:
        """The groups of several groupings, as the union of each, or as one view."""
        scope, items = self._from_and_items()
        self.context.stop_on_problems()
        union = self._sets(scope, items, items)
        names = [item.name for item in items]
        keys = order_keys(self.context, self.select.args.get("order"), names, scope, items)
        self.context.stop_on_problems()
        semantics: Semantics = asked or ("set" if is_distinct(self.select) else "bag")
        if not self.body.draft.views and semantics == "bag":
            order = (VariableOrder(names[k.index], k.descending, nulls_first=k.nulls_first) for k in keys)
            return replace(union, order=tuple(dict.fromkeys(_said(each) for each in order)))
        table, made = self._over_sets(union, self.name, semantics)
        terms = [self.body.term(column_node(table, column)) for column in table.columns]
        self.body.draft.order += [(terms[k.index], k.descending, k.nulls_first) for k in keys]
        return normalise(self.body.draft) if keys else made

    def _sets(self, scope: Scope, listed: list[Item], items: list[Item]) -> UnionQuery:
        """The columns `items` of the groups of every grouping; they are over the views of this SELECT's draft."""
        context, group = self.context, self.select.args["group"]
        sets = [[self._group_node(scope, listed, key) for key in keys] for keys in grouping_sets(context, group)]
        keys = {key_of(node): node for nodes in sets for node in nodes}
        members = []
        for i, nodes in enumerate(sets, 1):
            made = copy(self)
            draft = self.body.draft.copy(f"{self.body.draft.name}.{i}", "bag")
            made.body = replace(self.body, draft=draft, atoms=dict(self.body.atoms), foreign=[])
            made.grouping = Grouping(context, keys, {key_of(node): node for node in nodes})
            members.append(made._groups(scope, listed, items, default=False))
        columns = []
        for several in zip(*(m.columns for m in members), strict=True):
            nullable = any(c.nullable for c in several)
            columns.append(OutputColumn(several[0].name, several[0].type, nullable, "variable", several[0].name))
        return UnionQuery(self.body.draft.name, tuple(members), tuple(columns), "bag")

    def _over_sets(self, union: UnionQuery, name: str, semantics: Semantics) -> tuple[Table, ConjunctiveQuery]:
        """The rows of a union of groupings, which is a view behind those of its body."""
        views = self.body.draft.views
        inner = self.context.view_name(name, "groups")
        self.body = Body(self.context, Draft(name, semantics), flat=False)
        self.body.draft.views = views
        table = view_table(self.body, replace(union, name=inner), inner, "groups")
        self.body.add(table)
        for column in table.columns:
            self.body.draft.output(column.name, self.body.term(column_node(table, column)))
        return table, normalise(self.body.draft)

    def _groups(
        self, scope: Scope, listed: list[Item], items: list[Item], *, default: bool, is_ordered: bool = False
    ) -> ConjunctiveQuery:
        """The groups with the columns `items`; GROUP BY means those that are `listed`."""
        having = self.select.args.get("having")
        if any(map(has_query, [*(item.node for item in items), *([having.this] if having is not None else [])])):
            if self.grouping is not None:
                message = "a subquery beside GROUPING SETS, ROLLUP or CUBE is not supported"
                raise self.context.refuse(self.select.args["group"], message, "put the groups into a derived table")
            return self._over_groups(scope, listed, items, is_ordered=is_ordered)
        return self._grouped(scope, listed, items, default=default, is_ordered=is_ordered)

    def _over_groups(
        self, scope: Scope, listed: list[Item], items: list[Item], *, is_ordered: bool
    ) -> ConjunctiveQuery:
        """Groups beside which HAVING or the columns have subqueries: a query over a view of the groups."""
        context, name = self.context, self.body.draft.name
        terms = self._group_terms(scope, listed)
        groups = GroupMarks(self.body, scope, terms)
        clause = self.select.args.get("having")
        nodes: list[exp.Expr] = []
        conditions: list[exp.Expr] = []
        for item in items:
            with context.gather():
                nodes.append(groups.marked(item.node) if has_query(item.node) else groups.over_groups(item.node))
        for conjunct in conjuncts(clause.this) if clause is not None else ():
            with context.gather():
                conditions.append(groups.marked(conjunct))
        context.stop_on_problems()
        inner = context.view_name(name, "groups")
        self.body.draft.name = inner
        query = self._grouped(scope, listed, groups.leaves, default=False, is_whole=True)
        outer = Body(context, Draft(name, "set" if is_distinct(self.select) else "bag"), flat=is_distinct(self.select))
        table = view_table(outer, query, inner, "groups")
        outer.add(table)
        given = {mark: column_node(table, table.column(mark)) for mark in groups.marks}
        around = groups.moved(table)
        for condition in sorted(conditions, key=has_query):
            with context.gather():
                over = with_values(outer, around, condition, self.ctes, is_condition=True, given=given)
                over.meta.setdefault("start", context.at(condition))
                for piece in outer.pieces(over):
                    outer.take(piece)
        made = [with_values(outer, around, node, self.ctes, given=given) for node in nodes]
        if outer.mixed or any(len(tables_of(node)) > 1 for node in made):
            made = list(map(join_rows(outer, [], made, ()), made))
        self.body = outer
        values: list[Term | DraftAggregate | Expression | None] = []
        for item, node in zip(items, made, strict=True):
            values.append(None)
            with context.gather():
                values[-1] = value = self._row_value(replace(item, node=node))
                outer.draft.output(item.name, value)
        if is_ordered:
            self._order(scope, items, values)
        context.stop_on_problems()
        return normalise(outer.draft)

    def _grouped(
        self,
        scope: Scope,
        listed: list[Item],
        items: list[Item],
        *,
        default: bool,
        is_ordered: bool = False,
        is_whole: bool = False,
    ) -> ConjunctiveQuery:
        """The groups as they are; `is_whole`: without HAVING and DISTINCT."""
        terms = self._group_terms(scope, listed)
        self.context.stop_on_problems()
        grouping = self.grouping or Grouping(self.context, {}, {})
        if self.grouping is not None or any(item.node.find(exp.Grouping, exp.GroupingId) for item in items):
            items = [replace(item, node=grouping.of(item.node)) for item in items]
        condition = None
        if not is_whole:
            with self.context.gather():
                condition = self._having_node(scope, terms)
        nodes = [*(item.node for item in items), *([condition] if condition is not None else [])]
        if any(has_text(self.context, node) for node in nodes):
            active = None if self.grouping is None else list(self.grouping.active.values())
            keys = list(self._group_nodes(scope, listed)) if active is None else active
            texts = Texts(self.body, keys, nodes)
            self.body = texts.body
            items = [replace(item, node=texts.over(item.node)) for item in items]
            condition = None if condition is None else texts.over(condition)
            moved = [texts.over(key) for key in keys]
            terms = None if terms is None else {key_of(node): self._group_term(node, "") for node in moved}
        draft = self.body.draft
        draft.group_by = None if terms is None else list(dict.fromkeys(terms.values()))
        groups = Groups(self.body, terms)
        for node in (*(item.node for item in items), *([condition] if condition is not None else [])):
            with self.context.gather():
                groups.prepare(node)
        # Aggregates that are output columns themselves are called as these are.
        for item in items:
            if is_basic(bare(item.node)):
                with self.context.gather():
                    groups.aggregate(bare(item.node), item.name)
        values: list[Term | DraftAggregate | Expression | None] = []
        for item in items:
            values.append(None)
            with self.context.gather():
                values[-1] = value = groups.value(item.node, item.name)
                draft.output(item.name, value)
        if condition is not None:
            with self.context.gather():
                draft.having = self._having(groups, condition)
        if terms is None and not draft.aggregates:
            draft.having = _one_group(groups, draft.having)
        self.context.stop_on_problems()
        selected = {v for v in values if isinstance(v, Term)}
        whole = selected.issuperset(draft.group_by or ())
        is_plain = self.grouping is None and not is_whole
        if is_plain and is_distinct(self.select) and not whole and not has_window(self.select):
            return self._distinct_of_groups(scope, items, is_ordered=is_ordered)
        if default and whole and not draft.aggregates and draft.having is None and len(selected) == len(set(values)):
            draft.group_by, draft.semantics = None, "set"
        if is_ordered:
            self._order(scope, items, values)
        self.context.stop_on_problems()
        return normalise(draft)

    def _group_terms(self, scope: Scope, items: list[Item]) -> dict[str, Term] | None:
        """Group expressions by text; None for a global aggregate."""
        if self.grouping is not None:
            return {key: self._group_term(node, "") for key, node in self.grouping.active.items()} or None
        group = self.select.args.get("group")
        if group is None:
            return None
        nodes = list(self._group_nodes(scope, items))
        if group.args.get("all") and not nodes:
            return None
        named = {key_of(item.node): item.name for item in items}
        terms: dict[str, Term] = {}
        for node in nodes:
            with self.context.gather():
                terms[key_of(node)] = self._group_term(node, named.get(key_of(node), ""))
        return terms

    def _group_nodes(self, scope: Scope, items: list[Item]) -> Iterator[exp.Expr]:
        """The resolved group expressions, but those with a problem, which are noted."""
        group = self.select.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            shown = [item.node for item in items if not has_query(item.node)]
            yield from (node for node in shown if not has_aggregate(node) and tables_of(node))
        keys = group.expressions
        if has_grouping_sets(self.select):
            keys = [key for keys in grouping_sets(self.context, group) for key in keys]
        for key in keys:
            with self.context.gather():
                yield self._group_node(scope, items, key)

    def _group_node(self, scope: Scope, items: list[Item], key: exp.Expr) -> exp.Expr:
        inner = bare(key)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            position = int(inner.this) if inner.this.isdigit() else 0
            if not 1 <= position <= len(items):
                message = f"GROUP BY {inner.this}: the SELECT has {many(len(items), 'output column')}"
                raise self.context.refuse(key, message, "name a column, or the position of an output column")
            return items[position - 1].node
        return scope.resolve(inner)

    def _group_term(self, node: exp.Expr, name: str) -> Term:
        if has_query(node):
            raise self.context.refuse(node, "GROUP BY cannot hold a subquery", "group by columns")
        tables = tables_of(node)
        if has_aggregate(node):
            raise self.context.refuse(node, "GROUP BY cannot hold an aggregate", "group by columns")
        if len(tables) == 1:
            return self.body.term(node, name)
        if tables:
            raise QueryProblems(self.context.problems)
        raise self.context.refuse(node, "GROUP BY a constant", "leave it out, or group by columns")

    def _having_node(self, scope: Scope, terms: dict[str, Term] | None) -> exp.Expr | None:
        clause = self.select.args.get("having")
        if clause is None:
            return None
        if self.grouping is None:
            return scope.resolve(clause.this, groups=terms or {})
        return self.grouping.of(scope.resolve(clause.this, groups=self.grouping.keys))

    def _having(self, groups: Groups, node: exp.Expr) -> Expression:
        value = groups.value(node)
        if isinstance(value, Expression):
            if value.type.name != "bool":
                raise self.context.refuse(node, "HAVING needs a condition", "compare the aggregate with something")
            return value
        kind = value.type if isinstance(value, DraftAggregate) else value.scalar.type
        nullable = value.nullable if isinstance(value, DraftAggregate) else value.scalar.nullable
        if kind.name != "bool":
            raise self.context.refuse(node, "HAVING needs a condition", "compare the aggregate with something")
        return Expression("{0}", (value,), kind, nullable)

    def _distinct_of_groups(self, scope: Scope, items: list[Item], *, is_ordered: bool) -> ConjunctiveQuery:
        """DISTINCT over groups whose columns are not all selected: a distinct projection of a view."""
        inner = self.context.view_name(self.name, "groups")
        self.body.draft.name = inner
        groups = normalise(self.body.draft)
        outer = Body(self.context, Draft(self.name, "set"), flat=True)
        table = view_table(outer, groups, inner, "groups")
        outer.add(table)
        values = [outer.term(column_node(table, column)) for column in table.columns]
        for column, value in zip(table.columns, values, strict=True):
            outer.draft.output(column.name, value)
        self.body = outer
        if is_ordered:
            self._order(scope, items, list(values))
        self.context.stop_on_problems()
        return normalise(outer.draft)

    def _order(self, scope: Scope, items: list[Item], values: list[Term | DraftAggregate | Expression | None]) -> None:
        if self.context.problems:
            return
        keys = order_keys(self.context, self.select.args.get("order"), [i.name for i in items], scope, items)
        for key in keys:
            value = values[key.index]
            if isinstance(value, DraftAggregate) or (isinstance(value, Expression) and value.parts):
                self.body.draft.order.append((items[key.index].name, key.descending, key.nulls_first))
            elif isinstance(value, Term):
                self.body.draft.order.append((value, key.descending, key.nulls_first))


def _one_group(groups: Groups, having: Expression | None) -> Expression:
    """HAVING of the one group that is there without any row, where nothing else counts rows."""
    template, parts = ("", ()) if having is None else (f"({having.template}) AND ", having.parts)
    count = groups.aggregate(exp.Count(this=exp.Star()), "rows")
    return Expression(f"{template}{{{len(parts)}}} >= 0", (*parts, count), BOOL, False)


def _said(order: VariableOrder) -> VariableOrder:
    """A word on NULL that says what dynq does anyway makes no other order."""
    return order if order.nulls_first == order.descending else replace(order, nulls_first=None)
