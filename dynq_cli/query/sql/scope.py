"""Names in sight: which column a name means, and what `*` stands for.

Names compare without case. A scope sees its own FROM first, then the scope around it (for
correlated subqueries), and last the aliases of its SELECT, as DuckDB does.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import exp

from dynq_cli.query.sql.calls import is_aggregate
from dynq_cli.query.sql.clock import ALIAS as CLOCK_ALIAS
from dynq_cli.query.sql.context import Context, key_of
from dynq_cli.query.sql.scalars import closed
from dynq_cli.query.sql.shape import outside_queries


@dataclass
class Source:
    """One entry of FROM: an alias and its columns, each a resolved expression."""

    alias: str
    columns: list[tuple[str, exp.Expr]]

    def find(self, name: str) -> exp.Expr | None:
        return next((e for n, e in self.columns if n.lower() == name.lower()), None)


@dataclass
class Scope:
    context: Context
    around: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    visible: list[tuple[Source, str, exp.Expr]] = field(default_factory=list)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    closed_because: str = ""

    def add(self, source: Source, node: exp.Expr) -> None:
        if any(s.alias.lower() == source.alias.lower() for s in self.sources):
            message = f"two tables of this FROM are called {source.alias}"
            raise self.context.refuse(node, message, f"give one an alias: {source.alias} AS {source.alias}2")
        self.sources.append(source)
        if source.alias != CLOCK_ALIAS:
            self.visible += [(source, name, e) for name, e in source.columns]

    def merge(self, source: Source, name: str) -> None:
        """Hide `source`'s column from unqualified names: USING has made it one with an earlier one."""
        self.visible = [v for v in self.visible if not (v[0] is source and v[1].lower() == name.lower())]

    def matches(self, name: str, before: Source | None = None) -> list[exp.Expr]:
        seen = [v for v in self.visible if v[0] is not before]
        return [e for _, n, e in seen if n.lower() == name.lower()]

    def lookup(self, node: exp.Column) -> exp.Expr:
        """What a column node means. Raises QueryProblems at its place."""
        found = self._qualified(node) if node.table else self._unqualified(node)
        return self._placed(found, node)

    def _is_one(self, node: exp.Column, groups: Container[str] | None) -> bool:
        return groups is not None and any(key_of(e) in groups for e in self.matches(node.name))

    def _placed(self, value: exp.Expr, node: exp.Expr) -> exp.Expr:
        """A copy of a resolved expression that stands where `node` stands."""
        made = closed(value.copy())
        at = self.context.at(node)
        for part in made.walk():
            part.meta["start"] = at
        return made

    def _qualified(self, node: exp.Column) -> exp.Expr:
        if node.args.get("db") is not None:
            message = "a column is named by its table's alias and its name only"
            raise self.context.refuse(node, message, f"write {node.table}.{node.name}")
        wanted = node.table.lower()
        scope: Scope | None = self
        while scope is not None:
            source = next((s for s in scope.sources if s.alias.lower() == wanted), None)
            if source is not None:
                found = source.find(node.name)
                if found is None:
                    names = [n for n, _ in source.columns]
                    raise self._unknown(node, f"{source.alias} has no column {node.name}", names)
                return self._crossing(scope, node, found)
            scope = scope.around
        if node.table == CLOCK_ALIAS:
            message = "the time cannot stand in the ON of a RIGHT or FULL JOIN"
            raise self.context.refuse(node, message, "write the condition in a derived table that is one of the sides")
        aliases = [s.alias for s in self._all_sources()]
        hint = _near(node.table, aliases) or f"in sight are {', '.join(aliases)}"
        raise self.context.refuse(node, f"there is no table {node.table} in sight", hint)

    def _unqualified(self, node: exp.Column) -> exp.Expr:
        scope: Scope | None = self
        while scope is not None:
            found = scope.matches(node.name)
            if len(found) > 1:
                names = [f"{s.alias}.{n}" for s, n, _ in scope.visible if n.lower() == node.name.lower()]
                raise self.context.refuse(node, f"{node.name} is ambiguous", f"write {' or '.join(names)}")
            if found:
                return self._crossing(scope, node, found[0])
            if node.name.lower() in scope.aliases:
                return self._crossing(scope, node, scope.aliases[node.name.lower()])
            scope = scope.around
        names = list(dict.fromkeys(n for s in self._all_sources() for n, _ in s.columns))
        raise self._unknown(node, f"no table in sight has a column {node.name}", names)

    def _crossing(self, scope: Scope, node: exp.Column, found: exp.Expr) -> exp.Expr:
        inner: Scope | None = self
        while inner is not None and inner is not scope:
            if inner.closed_because:
                message = f"{node.sql(dialect='duckdb')} belongs to the query around {inner.closed_because}"
                hint = "use it in the WHERE of EXISTS or IN over plain joins, or join with a derived table"
                raise self.context.refuse(node, message, hint)
            inner = inner.around
        return found

    def _unknown(self, node: exp.Column, message: str, names: list[str]) -> Exception:
        hint = _near(node.name, names) or (f"the columns are {', '.join(names)}" if 0 < len(names) <= 12 else "")
        return self.context.refuse(
            node, message, hint or ("check the columns in the spec" if names else "name relations in FROM")
        )

    def _all_sources(self) -> list[Source]:
        scope: Scope | None = self
        found: list[Source] = []
        while scope is not None:
            found += scope.sources
            scope = scope.around
        return found

    def star(self, table: str, node: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """The columns of `*`, or of `table.*`."""
        if not table:
            return [(name, e) for _, name, e in self.visible]
        source = next((s for s in self.sources if s.alias.lower() == table.lower()), None)
        if source is None:
            aliases = [s.alias for s in self.sources]
            hint = _near(table, aliases) or f"in sight are {', '.join(aliases)}"
            raise self.context.refuse(node, f"there is no table {table} in sight", hint)
        return list(source.columns)

    def resolve(self, node: exp.Expr, groups: Container[str] | None = None) -> exp.Expr:
        """A copy of `node` with every column resolved; subqueries inside are left as they are.

        In HAVING, where `groups` has the keys of the group expressions, an alias of the SELECT hides
        a column that is not one of them and stands in no aggregate.
        """
        holder = exp.Paren(this=node.copy())
        for found in list(outside_queries(holder)):
            if isinstance(found, exp.Column):
                alias = self.aliases.get(found.name.lower()) if groups is not None and not found.table else None
                if alias is not None and not _in_aggregate(found) and not self._is_one(found, groups):
                    found.replace(self._placed(alias, found))
                else:
                    found.replace(self.lookup(found))
        inner: exp.Expr = holder.this
        return inner.pop()


def _in_aggregate(node: exp.Expr) -> bool:
    around = node.parent
    while around is not None and not is_aggregate(around):
        around = around.parent
    return around is not None


def _near(name: str, names: list[str]) -> str:
    close = get_close_matches(name.lower(), [n.lower() for n in names], 1)
    return f"did you mean {next(n for n in names if n.lower() == close[0])}?" if close else ""
