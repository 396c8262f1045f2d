"""Measure the tables of an engine, by relation and by query.

    bytes of relations + queries + shared = bytes that the tables of the arena use

A table belongs to the query whose trees or derived relations use it. Blocks of order-statistic trees are shared if
several queries have an order or a range. The records of a relation include the links of its trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np

from dynq_cli.engine.kernels.fields import Rows, Words
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.size_facts import QuerySize, RelationSize, TableSizes
from dynq_cli.engine.views import Views
from dynq_cli.plan.program import Cycle, Derived, Program, Tree, passed_rows
from dynq_cli.spec.model import CLOCK

_WORD = 8


def sizes_of(views: Views, copies: Mapping[str, int] | None = None) -> TableSizes:
    """The sizes of an engine between commits. O(tables), and O(rows) for relations whose `copies` are not given."""
    tables, known = views.engine.arena.tables, copies or {}
    counted = {}
    for relation in views.spec.relations:
        if not relation.key:
            many = known.get(relation.name)
            counted[relation.name] = _copies(views, views.layout.bases[relation.name].table) if many is None else many
    return sizes_in(views.layout, views.queries, tables, counted, views.dictionaries.length)


def sizes_in(
    layout: Layout, programs: Mapping[str, Program], tables: Rows, copies: Mapping[str, int], dictionaries: int
) -> TableSizes:
    """The sizes of tables that are as the rows of `tables` say; `copies` are those of relations without a key."""
    used = bytes_used(tables)
    derived = {name: int(tables["live"][layout.bases[name].table]) for name in layout.derived}
    relations = {}
    for name, base in layout.bases.items():
        if name not in derived and name != CLOCK:
            rows = int(tables["live"][base.table])
            relations[name] = RelationSize(rows, copies.get(name, rows), int(used[base.table]))
    owners = owners_of(layout, programs)
    queries = {}
    for name, program in programs.items():
        own = [table for table, queries_ in owners.items() if queries_ == {name}]
        stored = sum(derived.get(step.name, 0) for step in program.steps if isinstance(step, Derived))
        queries[name] = QuerySize(int(used[own].sum()), stored)
    shared = [table for table, queries_ in owners.items() if len(queries_) > 1]
    return TableSizes(relations, queries, int(used[shared].sum()), dictionaries)


def rows_of_steps(views: Views) -> dict[tuple[str, int], int]:
    """Return the rows of each tree's nodes, children first, of each cycle's atoms, and of derived relations (0).

    Leaves that are base rows behind a filter are left out: how many pass it is not kept. O(nodes).
    """
    layout, tables, found = views.layout, views.engine.arena.tables, dict[tuple[str, int], int]()
    for name, tree in layout.trees.items():
        for number, node in enumerate(layout.nodes[tree.first : tree.stop]):
            if int(node["table"]) not in layout.base_tables or node["filter"] < 0:
                found[name, number] = int(tables["live"][node["table"]])
    for name, cycle in layout.cycles.items():
        found |= {(name, i): int(tables["live"][cycle.edges[e].table]) for i, e in enumerate(cycle.number)}
    own: dict[str, int] = {name: layout.bases[name].table for name in layout.derived}
    own |= {name: made.table for name, made in layout.groups.items()}
    found |= {
        (name, 0): int(tables["live"][table]) for name, table in own.items() if name not in passed_rows(layout.steps)
    }
    return found


def bytes_used(tables: Rows) -> Words:
    """The bytes of each table's records and slots, free room left out."""
    used: Words = (tables["used"] * tables["stride"] + tables["mask"] + 1) * _WORD
    return used


def owners_of(layout: Layout, programs: Mapping[str, Program]) -> dict[int, set[str]]:
    """Return the queries that use each table, without the spec's base tables. O(tables + nodes)."""
    needed: dict[int, set[str]] = {}
    of_steps = tables_of_steps(layout)
    pools = range(layout.first_pool, len(layout.tables)) if len(layout.ordered) else range(0)
    for query, program in programs.items():
        found: set[int] = set()
        for step in program.steps:
            found |= set(of_steps.get(step.name, ()))
            if isinstance(step, Derived):
                found.add(layout.bases[step.name].table)
            elif isinstance(step, Tree) and step.name in layout.trees:
                tree = layout.trees[step.name]
                nodes = layout.nodes[tree.first : tree.stop]
                if (nodes["tree"] >= 0).any() or (nodes["readers"] >= 0).any():
                    found |= set(pools)
        for table in found:
            needed.setdefault(table, set()).add(query)
    return needed


def tables_of_steps(layout: Layout) -> dict[str, list[int]]:
    """Return the tables of each step but for base tables and blocks of ordered trees, in the order of their numbers."""
    of_groups, found = _group_tables(layout), dict[str, list[int]]()
    for step in layout.steps:
        own: set[int] = set()
        if isinstance(step, Derived):
            own = set(of_groups.get(step.name, ()))
        elif isinstance(step, Cycle):
            own = set(layout.cycles[step.name].tables)
        elif step.name in layout.trees:
            nodes = layout.nodes[layout.trees[step.name].first : layout.trees[step.name].stop]
            own = {int(table) for table in (*nodes["table"], *nodes["group"]) if table >= 0}
        found[step.name] = sorted(own - layout.base_tables)
    return found


def _group_tables(layout: Layout) -> dict[str, Iterable[int]]:
    """Return the tables of each relation with groups or partitions, right before the blocks of ordered trees."""
    end = layout.first_pool if len(layout.ordered) else len(layout.tables)
    first = {name: made.table for name, made in layout.groups.items()}
    first |= {name: made.table for name, made in layout.partitions.items()}
    names = sorted(first, key=first.__getitem__)
    starts = [*(first[name] for name in names), end]
    return {name: range(*both) for name, both in zip(names, pairwise(starts), strict=True)}


def _copies(views: Views, table: int) -> int:
    """Count the rows of a base table with copies; a freed row has none."""
    arena = views.engine.arena
    row = arena.tables[table]
    first, stride, used = int(row["rows"]), int(row["stride"]), int(row["used"])
    records = arena.words[first : first + used * stride].reshape(-1, stride)
    return int(records[:, row["mult"]].sum(dtype=np.int64))
