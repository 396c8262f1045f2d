"""Expressions over groups that hold subqueries, with marks in place of what a view of the groups has columns for.

SUM(x) > (SELECT MAX(y) FROM S WHERE S.k = R.k)   with R.k among the groups
group1 > (SELECT MAX(y) FROM S WHERE S.k = R.k)   and in the subquery, R.k is group2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dynq_cli.query.draft import Term
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.calls import is_aggregate
from dynq_cli.query.sql.context import Table, bare, column_node, key_of
from dynq_cli.query.sql.items import Item
from dynq_cli.query.sql.scope import Scope, Source
from dynq_cli.query.sql.shape import has_query


@dataclass
class GroupMarks:
    """`leaves` are the columns that the view of the groups needs: every group expression, and the aggregates."""

    body: Body
    scope: Scope
    terms: Mapping[str, Term] | None
    leaves: list[Item] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    _by_text: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for source in self.scope.sources:
            for _, node in source.columns:
                if key_of(node) in (self.terms or {}):
                    self._mark(node)

    def marked(self, node: exp.Expr) -> exp.Expr:
        """A copy of an unresolved node with marks around its subqueries."""
        holder = exp.Paren(this=node.copy())
        self._visit(holder)
        made: exp.Expr = holder.this
        return made.pop()

    def _visit(self, node: exp.Expr) -> None:
        for child in list(node.iter_expressions()):
            if isinstance(child, exp.Query):
                continue
            if has_query(child):
                if is_aggregate(child) or isinstance(child, exp.Filter):
                    message = "a subquery inside an aggregate is not supported"
                    raise self.body.context.refuse(child, message, "compute its value in a derived table")
                self._visit(child)
            elif any(isinstance(n, exp.Column) or is_aggregate(n) for n in child.walk()):
                child.replace(self.over_groups(self.scope.resolve(child, groups=self.terms or {})))

    def over_groups(self, node: exp.Expr) -> exp.Expr:
        """A copy of a resolved node with marks for its group expressions and aggregates."""
        holder = exp.Paren(this=node.copy())
        self._replace(holder)
        made: exp.Expr = holder.this
        return made.pop()

    def _replace(self, node: exp.Expr) -> None:
        for child in list(node.iter_expressions()):
            is_leaf = key_of(child) in (self.terms or {}) or is_aggregate(child) or isinstance(child, exp.Filter)
            if is_leaf:
                mark = exp.Placeholder(this=self._mark(child))
                mark.meta["start"] = self.body.context.at(child)
                child.replace(mark)
            elif isinstance(child, exp.Column):
                column = self.body.context.column(child)
                message = f"column {column.name} must appear in the GROUP BY or in an aggregate"
                raise self.body.context.refuse(child, message, f"add it to GROUP BY, or write MIN({column.name})")
            else:
                self._replace(child)

    def _mark(self, node: exp.Expr) -> str:
        key = key_of(node)
        if key not in self._by_text:
            name = f"group{len(self.leaves) + 1}"
            self._by_text[key] = self.marks[name] = name
            self.leaves.append(Item(name, bare(node).copy(), self.body.context.at(node)))
        return self._by_text[key]

    def moved(self, table: Table) -> Scope:
        """The names in sight, whose columns are those of the view of the groups, as far as it has them."""
        made = Scope(self.body.context, self.scope.around)

        def over(node: exp.Expr) -> exp.Expr:
            mark = self._by_text.get(key_of(node))
            return node if mark is None else column_node(table, table.column(mark))

        sources = {id(s): Source(s.alias, [(n, over(e)) for n, e in s.columns]) for s in self.scope.sources}
        made.sources = list(sources.values())
        made.visible = [(sources.get(id(s), s), n, over(e)) for s, n, e in self.scope.visible]
        return made
