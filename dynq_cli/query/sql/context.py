"""What one SQL text is compiled in: the spec, places, tables by number, names of views.

A *table* is one occurrence of a relation or view in a FROM: an atom in the making. Resolved
expressions name columns as `number.column`, so that they keep their meaning when a derived table
is inlined or a subquery's table becomes an atom of the query around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp

from dynq_cli.query.problems import QueryProblems, TextProblem, refuse
from dynq_cli.query.sql.parse import Places
from dynq_cli.spec.model import Column, Spec


@dataclass(frozen=True)
class Table:
    number: int
    alias: str
    source: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)


@dataclass(frozen=True)
class Cte:
    """A common table expression: compiled anew wherever it is named."""

    query: exp.Query
    column_names: tuple[str, ...]
    around: Ctes


Ctes = Mapping[str, Cte]


@dataclass
class Context:
    spec: Spec
    places: Places
    tables: dict[int, Table] = field(default_factory=dict)
    problems: list[TextProblem] = field(default_factory=list)
    view_names: set[str] = field(default_factory=set)

    def table(self, alias: str, source: str, columns: tuple[Column, ...]) -> Table:
        made = Table(len(self.tables), alias, source, columns)
        self.tables[made.number] = made
        return made

    def column(self, node: exp.Column) -> Column:
        """The column that a resolved node names."""
        return self.tables[int(node.table)].column(node.name)

    def view_name(self, query: str, alias: str) -> str:
        name = base = f"{query}.{alias}"
        count = 1
        while name in self.view_names:
            count += 1
            name = f"{base}_{count}"
        self.view_names.add(name)
        return name

    def at(self, node: exp.Expr | None) -> int:
        return self.places.at(node)

    def refuse(self, node: exp.Expr | None, message: str, hint: str = "") -> QueryProblems:
        return refuse(self.at(node), message, hint)

    def refuse_at(self, offset: int, message: str, hint: str = "") -> QueryProblems:
        return refuse(offset, message, hint)

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Note the problems of one clause and go on with the next."""
        try:
            yield
        except QueryProblems as found:
            self.problems += found.problems

    def stop_on_problems(self) -> None:
        if self.problems:
            raise QueryProblems(dict.fromkeys(self.problems))


def column_node(table: Table, column: Column, at: int | None = None) -> exp.Column:
    """The resolved node for a column."""
    node = exp.Column(
        this=exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(str(table.number), quoted=True)
    )
    if at is not None:
        node.meta["start"] = at
    return node


def tables_of(node: exp.Expr) -> list[int]:
    """The numbers of the tables a resolved expression reads, ascending."""
    return sorted({int(c.table) for c in node.find_all(exp.Column)})


def bare(node: exp.Expr) -> exp.Expr:
    """The expression inside parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def key_of(node: exp.Expr) -> str:
    """Equal for expressions that are written the same, whatever the spacing and case of keywords."""
    return bare(node).sql(dialect="duckdb")


def many(count: int, noun: str) -> str:
    """A number of things.

    >>> many(1, "column"), many(2, "column")
    ('1 column', '2 columns')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def plain_name(text: str) -> str:
    """A text as a lower-case identifier.

    >>> plain_name("SUM(l_extendedprice * 2)")
    'sum_l_extendedprice_2'
    """
    name = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
    name = re.sub(r"__+", "_", name)[:60].strip("_")
    return f"c_{name}" if not name or name[0].isdigit() else name
