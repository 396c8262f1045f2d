"""Estimate the number of rows of each table of an engine, with DuckDB, from a sample of the base rows.

    TableCounts(duck, layout, sample).count()    rows per table, groups of order-statistic trees, dictionary values

A view has the distinct values of its variables in the atoms that guard it; a derived relation has the rows of the trees
that feed it. Counts in the sample are extrapolated, assuming that rows draw their values from P equally likely ones:

    distinct(n) = P · (1 - e^(-n / P))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dynq_cli.engine.codes import needs_labels
from dynq_cli.engine.cycle_layout import CycleLayout, PairTables
from dynq_cli.engine.forecast import Group, Rows, ValueCount
from dynq_cli.engine.group_layout import GroupLayout
from dynq_cli.engine.kernels.cycle_pairs import Pairs
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.tree_layout import TreeLayout
from dynq_cli.plan.program import Cycle, Derived, Feed, Measure, Tree, high, low, relayed
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.aggregates import basic
from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.duck import Duck, DuckError
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, OutputColumn
from dynq_cli.query.scalar import quote
from dynq_cli.session.sample import Sample
from dynq_cli.spec.model import Column, Relation

# Rows of a tree's result that are looked at, and the seconds that finding them may take.
MOST_JOINED = 4_000_000
MOST_SECONDS = 20.0


@dataclass(frozen=True)
class Drawn:
    """Rows of the sample, those of all data that they stand for, and how many distinct values the sample's have."""

    rows: float
    stands_for: float
    distinct: float

    @property
    def all_distinct(self) -> float:
        return extrapolated(self.distinct, self.rows, self.stands_for)

    def __add__(self, other: Drawn) -> Drawn:
        return Drawn(self.rows + other.rows, self.stands_for + other.stands_for, 0)


def extrapolated(distinct: float, rows: float, all_rows: float) -> float:
    """The distinct values of so many rows, of which some were looked at.

    >>> extrapolated(3, 1000, 10_000), extrapolated(1000, 1000, 10_000)
    (3, 10000)
    >>> round(extrapolated(632.12, 1000, 10_000))
    1000
    """
    if all_rows <= rows or distinct <= 0:
        return distinct
    if distinct >= rows * (1 - 1e-6):
        return all_rows
    least, most = distinct, 1e18
    for _ in range(200):
        values = math.sqrt(least * most)
        if values * -math.expm1(-rows / values) < distinct:
            least = values
        else:
            most = values
    return max(distinct, least * -math.expm1(-all_rows / least)) if least > distinct * (1 + 1e-9) else distinct


@dataclass
class Counted:
    """`groups` are by the first of the tables with blocks; `rough` are the steps whose rows could not be counted."""

    rows: dict[int, Rows] = field(default_factory=dict)
    groups: dict[int, list[Group]] = field(default_factory=dict)
    values: dict[str, ValueCount] = field(default_factory=dict)
    rough: list[str] = field(default_factory=list)


class TableCounts:
    def __init__(self, duck: Duck, layout: Layout, sample: Sample, seconds: float | None = None) -> None:
        self._duck = duck
        self._layout = layout
        self._sample = sample
        self._seconds = MOST_SECONDS if seconds is None else seconds
        # By relation, the share of its rows that its table has.
        self._kept = dict(sample.kept)
        self._relayed = relayed(layout.steps)
        self._made = Counted()
        self._temporary = 0

    def count(self) -> Counted:
        """All tables of the layout. O(rows of the sample) per table."""
        for name, base in self._layout.bases.items():
            if name not in self._layout.derived:
                rows = self._count_rows(quote(name)) / self._kept[name]
                self._set(base.table, rows)
        for step in self._layout.steps:
            if isinstance(step, Derived):
                self._derive(step)
            elif isinstance(step, Cycle):
                self._edges(self._layout.cycles[step.name])
            elif isinstance(step, Tree) and step.name in self._layout.trees:
                _Walk(self, self._layout.trees[step.name]).count()
        self._values()
        return self._made

    def _set(self, table: int, rows: float, churn: float = 0) -> None:
        many = max(0, round(rows))
        self._made.rows[table] = Rows(many, many + round(churn))

    def _count_rows(self, source: str) -> int:
        ((many,),) = self._duck.rows(f"SELECT count(*) FROM {source}")
        return int(many)

    def atom(self, atom: Atom) -> str:
        """SQL for the rows of an atom, in its variables. An expression or a filter that cannot be asked is left out."""
        columns = ", ".join(f"{b.scalar.sql} AS {quote(b.variable)}" for b in atom.bindings) or "1 AS one"
        where = " AND ".join(f"({s.sql})" for s in atom.filters) or "TRUE"
        sql = f"SELECT {columns} FROM {quote(atom.source)} WHERE {where}"
        try:
            self._duck.types(sql)
        except DuckError:
            return f"SELECT {columns} FROM {quote(atom.source)}"
        return sql

    def drawn(self, atom: Atom) -> Drawn:
        rows = self._count_rows(f"({self.atom(atom)})")
        return Drawn(rows, rows / self._kept[atom.source], 0)

    def table_of(self, sql: str) -> str:
        """A temporary table with the rows of a SELECT."""
        self._temporary += 1
        name = quote(f"temporary {self._temporary}")
        self._duck.run(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def drop(self, table: str) -> None:
        self._duck.run(f"DROP TABLE {table}")

    def distinct(self, source: str, variables: Sequence[str]) -> int:
        if not variables:
            return 1
        listed = ", ".join(map(quote, variables))
        return self._count_rows(f"(SELECT DISTINCT {listed} FROM {source})")

    def note_groups(self, pool: int, source: str, variables: Sequence[str], rows: float) -> None:
        """Note the groups of a counted tree: rows of a table that agree on some variables; there are `rows` in all."""
        by = ", ".join(map(quote, variables))
        grouped = f"SELECT count(*) AS n FROM {source} {f'GROUP BY {by}' if by else ''}"
        sizes = self._duck.rows(f"SELECT n, count(*) FROM ({grouped}) WHERE n > 0 GROUP BY n")
        seen, groups = sum(n * many for n, many in sizes), sum(many for _, many in sizes)
        if not groups:
            return
        every = extrapolated(groups, seen, max(rows, seen))
        longer = (max(rows, seen) / every) / (seen / groups)
        self._made.groups.setdefault(pool, []).extend(Group(n * longer, many * every / groups) for n, many in sizes)

    def _derive(self, step: Derived) -> None:
        base, groups = self._layout.bases[step.name], self._layout.groups.get(step.name)
        taken = (
            tuple(c.name for c in step.groups.inputs) if step.groups else tuple(c.name for c in step.relation.columns)
        )
        parts: list[str] = []
        less: list[str] = []
        drawn = Drawn(0, 0, 0)
        for feed in step.feeds:
            table, some = self._fed(step.name, feed, taken)
            (parts if feed.sign == 1 else less).append(table)
            drawn += some if feed.sign == 1 else Drawn(0, 0, 0)
        union = " UNION ALL ".join(f"SELECT * FROM {table}" for table in parts)
        if groups is None:
            taken_away = "".join(f" EXCEPT SELECT * FROM {table}" for table in less)
            self._duck.run(f"CREATE TABLE {quote(step.name)} AS SELECT DISTINCT * FROM ({union}){taken_away}")
        else:
            fed = self.table_of(union)
            self._duck.run(f"CREATE TABLE {quote(step.name)} AS {self._grouped_sql(step, fed)}")
        rows = self._count_rows(quote(step.name))
        every = Drawn(drawn.rows, drawn.stands_for, rows).all_distinct
        self._kept[step.name] = rows / every if every > rows else 1.0
        if groups is not None:
            self._groups(groups, fed, drawn, every)
            self.drop(fed)
        if step.name not in self._relayed:
            # The new rows of groups come before the old ones go.
            later = min(every, self._later_changes()) if groups is not None else 0
            self._set(base.table, every, later)
        for table in (*parts, *less):
            self.drop(table)

    def _later_changes(self) -> float:
        """The changes of a call of the engine that is not the first."""
        changes = [read.changes for read in self._sample.read_of.values()]
        calls = [call for many in changes for call in _calls(many)]
        return max(calls[1:], default=0)

    def _fed(self, step: str, feed: Feed, taken: Sequence[str]) -> tuple[str, Drawn]:
        """A table with the rows that a feed takes from a tree, and how many there are."""
        cycle = self._layout.cycles.get(feed.tree)
        if cycle is not None and cycle.kept is not None and cycle.step.query.head:
            # One row of sums, or of ones.
            return self.table_of(f"SELECT {', '.join(f'1 AS {quote(name)}' for name in taken)}"), Drawn(1, 1, 0)
        query = self._layout.query_of(feed.tree)
        compared = [v for c in feed.where for v in (c.left, c.right)]
        sql = as_sql(_rows_query(query, tuple(dict.fromkeys((*feed.columns, *compared)))))
        where = " AND ".join(f"{quote(c.left)} {c.op} {quote(c.right)}" for c in feed.where if not c.offset)
        named = ", ".join(f"{quote(v)} AS {quote(name)}" for v, name in zip(feed.columns, taken, strict=True))
        asked = f"SELECT {named or '1 AS one'} FROM ({sql}) WHERE {where or 'TRUE'}"
        share = math.prod(self._kept[a.source] for a in query.atoms if a.mode == "join")
        try:
            with self._duck.at_most(self._seconds):
                table = self.table_of(f"{asked} LIMIT {MOST_JOINED}")
        except DuckError:
            self._made.rough.append(step)
            nulls = ", ".join(f"NULL AS {quote(name)}" for name in taken) or "1 AS one"
            table = self.table_of(f"SELECT {nulls} WHERE FALSE")
            return table, Drawn(0, self._guessed(query), 0)
        rows = self._count_rows(table)
        stands_for = rows / share
        if rows == MOST_JOINED:
            self._made.rough.append(step)
            stands_for = max(stands_for, self._guessed(query))
        return table, Drawn(rows, stands_for, 0)

    def _guessed(self, query: ConjunctiveQuery) -> float:
        """The rows of a join where values are spread evenly: those of all atoms, by the values that atoms share."""
        shared: dict[str, list[float]] = {}
        rows = 1.0
        for atom in query.atoms:
            if atom.mode == "join":
                drawn, source = self.drawn(atom), f"({self.atom(atom)})"
                rows *= drawn.stands_for
                for v in atom.variables:
                    many = Drawn(drawn.rows, drawn.stands_for, self.distinct(source, [v])).all_distinct
                    shared.setdefault(v, []).append(many)
        for several in shared.values():
            rows /= float(math.prod(sorted(several)[1:])) or 1.0
        return rows / 2.0 ** len(query.comparisons)

    def _edges(self, cycle: CycleLayout) -> None:
        """The rows of a cycle's edges, and the groups of their lists."""
        for edge in cycle.edges:
            source, drawn = f"({self.atom(edge.atom)})", self.drawn(edge.atom)
            for table, variables in ((edge.table, edge.variables), *edge.groups):
                many = replace(drawn, distinct=self.distinct(source, variables))
                self._set(table, many.all_distinct if variables else 1)
        if cycle.pairs is not None and cycle.kept is not None:
            self._pairs(cycle, cycle.pairs, cycle.kept)

    def _pairs(self, cycle: CycleLayout, pairs: Pairs, kept: PairTables) -> None:
        """The pairs of heavy values: at most all of them."""
        drawn = [self.drawn(edge.atom) for edge in cycle.edges]
        doublings = min(len(pairs.thresholds) - 1, math.ceil(math.log2(1 + sum(d.stands_for for d in drawn))))
        self._set(kept.table, 1)
        for view in pairs.views:
            rows = 1.0
            for side in ("left", "right"):
                edge, of = cycle.edges[view[side]], drawn[view[side]]
                near = quote(edge.variables[view[f"{side}_near_at"]])
                least = float(pairs.thresholds[doublings]) * of.rows / max(1.0, of.stands_for)
                rows *= self._count_rows(
                    f"(SELECT {near} FROM ({self.atom(edge.atom)}) GROUP BY {near} HAVING count(*) >= {least})"
                )
            self._set(view["table"], rows)

    def _grouped_sql(self, step: Derived, fed: str) -> str:
        """SQL for the rows of a relation of groups, their measures computed from the sample."""
        assert step.groups is not None
        keys = [quote(k) for k in step.groups.keys]
        shown = [*keys]
        for measure in step.groups.measures:
            name, value = measure.aggregate.name, self._measure_sql(measure, {c.name for c in step.groups.inputs})
            shown.append(f"{value} AS {quote(name)}")
            known = {c.name for c in step.relation.columns}
            shown += [f"{value} AS {quote(part)}" for part in (high(name), low(name)) if part in known]
        by = f" GROUP BY {', '.join(keys)}" if keys else "" if step.groups.one_row else " HAVING count(*) > 0"
        return f"SELECT {', '.join(shown) or '1 AS one'} FROM {fed}{by}"

    def _measure_sql(self, measure: Measure, inputs: set[str]) -> str:
        def column(name: str) -> str:
            return quote(name if name in inputs else high(name))

        a = measure.aggregate
        if measure.values:
            looked_at = [column(name) for name in measure.values]
            value = basic(a.function).sql(looked_at[0] if len(looked_at) == 1 else f"({', '.join(looked_at)})")
        elif a.function == "count":
            value = "count(*)"
        else:
            terms = [
                " * ".join([f"({m.coefficient:f})::DOUBLE", *(f"{column(name)}::DOUBLE" for name in names)])
                for m, names in zip(a.monomials, measure.factors, strict=True)
            ]
            value = f"{a.function}({' + '.join(terms) or '1'})"
        return f"TRY_CAST({value} AS {a.type.sql})"

    def _groups(self, layout: GroupLayout, fed: str, drawn: Drawn, every: float) -> None:
        """The tables of groups: their rows, and the values that MIN, MAX and COUNT(DISTINCT) look at."""
        self._set(layout.table, max(every, float(layout.groups.one_row)))
        names = [c.name for c in layout.groups.inputs]
        keys = list(layout.groups.keys)
        for values in layout.values:
            looked_at = [quote(names[int(column)]) for column in values.columns]
            listed = ", ".join([*map(quote, keys), *looked_at])
            there = " AND ".join(f"{name} IS NOT NULL" for name in looked_at)
            pairs = self.table_of(f"SELECT DISTINCT {listed} FROM {fed} WHERE {there}")
            many = Drawn(drawn.rows, drawn.stands_for, self._count_rows(pairs)).all_distinct
            self._set(values.table, many)
            if values.tree >= 0:
                self.note_groups(values.pool, pairs, keys, many)
            self.drop(pairs)

    def _values(self) -> None:
        """The values of dictionaries: all that columns have had, and what expressions give."""
        found: dict[str, list[tuple[str, float]]] = {name: [] for name in ("string", "binary", "decimal")}
        for name, base in self._layout.bases.items():
            if name not in self._layout.derived:
                for column in base.relation.columns:
                    if needs_labels(column.type):
                        values = self._sample.values_of(base.relation, column.name)
                        found[column.type.name].append((values, self._kept[name]))
            if name not in self._relayed:
                for computed in base.computed:
                    if needs_labels(computed.scalar.type) and not computed.part:
                        values = f"SELECT {computed.scalar.sql} AS v FROM {quote(name)}"
                        found[computed.scalar.type.name].append((values, self._kept[name]))
        for name, parts in found.items():
            self._made.values[name] = self._value_count(parts, name in self._layout.ordered_dictionaries)

    def value_bytes(self, relation: Relation, column: Column) -> float:
        """The bytes that the values of a column take in a dictionary, as if no other column had them."""
        if not needs_labels(column.type):
            return 0
        only = self._value_count([(self._sample.values_of(relation, column.name), self._kept[relation.name])], False)
        return only.length + 24 * only.values

    def _value_count(self, parts: list[tuple[str, float]], is_ordered: bool) -> ValueCount:
        apart, length = 0.0, 0.0
        seen = 0
        for sql, kept in parts:
            rows = self._count_rows(f"({sql})")
            values = f"SELECT DISTINCT v FROM ({sql}) WHERE v IS NOT NULL"
            length_of = "coalesce(sum(octet_length(v::VARCHAR::BLOB)), 0)"
            ((distinct, size),) = self._duck.rows(f"SELECT count(*), {length_of} FROM ({values})")
            every = extrapolated(distinct, rows, rows / kept)
            apart += every
            seen += distinct
            length += size * every / distinct if distinct else 0
        if not seen:
            return ValueCount(0, 0, is_ordered)
        union = " UNION ALL ".join(sql for sql, _ in parts)
        together = self._count_rows(f"(SELECT DISTINCT v FROM ({union}) WHERE v IS NOT NULL)") / seen
        return ValueCount(round(apart * together), round(length * together), is_ordered)


class _Walk:
    """The tables of one tree, node by node as the layout numbers them."""

    def __init__(self, counts: TableCounts, tree: TreeLayout) -> None:
        self.counts = counts
        self.layout = counts._layout
        self.tree = tree
        self.number = tree.first
        self.made: list[str] = []

    def count(self) -> None:
        self._visit(self.tree.plan.tree)
        for table in self.made:
            self.counts.drop(table)

    def _visit(self, node: Node) -> tuple[int, str, Drawn]:
        """The number of a node, a table or SELECT with its rows, and what they are drawn from."""
        counts, query = self.counts, self.tree.plan.query
        below = [self._visit(child) for child in node.children]
        number, self.number = self.number, self.number + 1
        table = int(self.layout.nodes["table"][number])
        if node.atom is not None:
            atom = query.atoms[node.atom]
            drawn = counts.drawn(atom)
            if table in self.layout.base_tables:
                return number, f"({counts.atom(atom)})", drawn
            source = self._distinct(f"({counts.atom(atom)})", node.variables)
        else:
            guards = [b for b, child in zip(below, node.children, strict=True) if child.guards(node)]
            listed = ", ".join(map(quote, node.variables)) or "1 AS one"
            union = " UNION ALL ".join(f"SELECT {listed} FROM {source}" for _, source, _ in guards)
            drawn = sum((d for _, _, d in guards[1:]), guards[0][2])
            source = self._distinct(f"({union})", node.variables)
        rows = counts.distinct(source, node.variables)
        drawn = replace(drawn, distinct=rows)
        counts._set(table, drawn.all_distinct if node.variables else 1)
        for (child, below_source, below_drawn), below_node in zip(below, node.children, strict=True):
            self._edge(node, source, drawn, child, below_node, below_source, below_drawn)
        return number, source, drawn

    def _distinct(self, source: str, variables: Sequence[str]) -> str:
        listed = ", ".join(map(quote, variables)) or "1 AS one"
        table = self.counts.table_of(f"SELECT DISTINCT {listed} FROM {source}")
        self.made.append(table)
        return table

    def _edge(
        self, node: Node, source: str, drawn: Drawn, child: int, below: Node, below_source: str, below_drawn: Drawn
    ) -> None:
        """The groups of a child that is no guard, and what stands in counted trees."""
        counts, row = self.counts, self.layout.nodes[child]
        shared = [v for v in node.variables if v in below.vars]
        if not row["guard"]:
            listed = ", ".join(map(quote, shared)) or "1 AS one"
            union = f"(SELECT {listed} FROM {source} UNION ALL SELECT {listed} FROM {below_source})"
            many = replace(drawn + below_drawn, distinct=counts.distinct(union, shared))
            counts._set(int(row["group"]), many.all_distinct)
        if row["tree"] >= 0:
            rows = counts._made.rows[int(row["table"])].live
            counts.note_groups(self.layout.first_pool, below_source, shared, rows)
        if row["readers"] >= 0:
            rows = counts._made.rows[int(self.layout.nodes["table"][row["parent"]])].live
            counts.note_groups(self.layout.first_pool, source, shared, rows)


def _calls(changes: float) -> Iterator[float]:
    """The calls of the engine in which it takes so many changes of one relation."""
    from dynq_cli.session.commits import EARLY

    while changes > 0:
        yield min(changes, EARLY)
        changes -= EARLY


def _rows_query(query: ConjunctiveQuery, variables: Sequence[str]) -> ConjunctiveQuery:
    """The rows of a tree in some of its variables, as a bag, which DuckDB need not make distinct."""
    columns = tuple(
        OutputColumn(v, query.variable(v).type, query.variable(v).nullable, "variable", v) for v in variables
    )
    return replace(query, head=tuple(variables), columns=columns, semantics="bag", order=())
