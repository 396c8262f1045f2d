"""Lay out a cycle in the arena: a table per edge, one of groups per index, and its routes as kernels read them.

edges_of(step)      the edges: atoms with the same rows share one; and the positions that its lists are by
cycle_layout(…)     the layout, once the fields of all records have their places
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from dynq_cli.engine.base_layout import PassageLayout
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.cycle_edges import EDGE, INDEX, LEVEL, OPERAND, ROUTE, Joins
from dynq_cli.plan.delta_join import Signature, signature, variables_in_order
from dynq_cli.plan.program import Cycle, Level, Operand, Route
from dynq_cli.query.normal_form import Atom
from dynq_cli.records import record

Key = tuple[int, ...]
NONE = -1


@record(frozen=True)
class Edge:
    """Atoms that have the same rows; `atom` is the first of them. `keys` are the positions that lists are by."""

    atom: Atom
    keys: tuple[Key, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return variables_in_order(self.atom)


@record()
class EdgeTables:
    """The table of an edge, and the fields of its indexes, one per key."""

    edge: Edge
    table: int
    indexes: list[dict[str, int]] = field(default_factory=list)


@record(frozen=True)
class EdgeLayout:
    """`rows` is how the base delta of its relation is read; `groups` are the tables of lists, with their variables."""

    atom: Atom
    variables: tuple[str, ...]
    table: int
    rows: PassageLayout
    groups: tuple[tuple[int, tuple[str, ...]], ...]


@record(frozen=True)
class CycleLayout:
    """`number` gives the edge of each atom."""

    step: Cycle
    edges: tuple[EdgeLayout, ...]
    number: tuple[int, ...]
    joins: Joins

    @property
    def tables(self) -> tuple[int, ...]:
        return tuple(t for e in self.edges for t in (e.table, *(table for table, _ in e.groups)))


def edges_of(step: Cycle) -> tuple[Edge, ...]:
    atoms = step.query.atoms
    first: dict[Signature, Atom] = {}
    keys: dict[Signature, dict[Key, None]] = {}
    for atom in atoms:
        first.setdefault(signature(atom), atom)
        keys.setdefault(signature(atom), {})
    for route in step.routes:
        for _, operand, key in _listed(step, route):
            keys[signature(atoms[operand.atom])][key] = None
    return tuple(Edge(atom, tuple(keys[each])) for each, atom in first.items())


def _listed(step: Cycle, route: Route) -> Iterator[tuple[int, Operand, Key]]:
    """The lists that a route goes through or asks for a group of: level, operand, and the positions that are bound."""
    atoms = step.query.atoms
    bound = frozenset().union(*(atoms[i].variables for i in route.changed))
    for depth, level in enumerate(route.levels):
        after = bound | frozenset(level.variables)
        for operand in level.operands:
            variables = variables_in_order(atoms[operand.atom])
            if operand.scans:
                yield depth, operand, tuple(i for i, v in enumerate(variables) if v in bound)
            elif not set(variables) <= after:
                yield depth, operand, tuple(i for i, v in enumerate(variables) if v in after)
        for operand in level.operands:
            variables = variables_in_order(atoms[operand.atom])
            if operand.scans and not set(variables) <= after:
                # Beside a shorter list it is only asked whether there is a row.
                yield depth, replaced(operand), tuple(i for i, v in enumerate(variables) if v in after)
        bound = after


def replaced(operand: Operand) -> Operand:
    """The operand that asks for a group in place of going through a list."""
    return Operand(operand.atom, False, operand.is_new)


def cycle_layout(step: Cycle, tables: Sequence[EdgeTables], rows: Sequence[PassageLayout]) -> CycleLayout:
    return _Encoder(step, tables).layout(rows)


class _Encoder:
    def __init__(self, step: Cycle, tables: Sequence[EdgeTables]) -> None:
        self.step = step
        self.tables = tables
        self.atoms = step.query.atoms
        self.slot = {v.name: i for i, v in enumerate(step.query.variables)}
        signatures = [signature(t.edge.atom) for t in tables]
        self.number = tuple(signatures.index(signature(a)) for a in self.atoms)
        self.lists: list[int] = []
        self.indexes: dict[tuple[int, Key], int] = {}
        self.index_rows: list[Mapping[str, int]] = []
        self.routes: list[dict[str, int]] = []
        self.levels: list[dict[str, int]] = []
        self.operands: list[dict[str, int]] = []

    def layout(self, rows: Sequence[PassageLayout]) -> CycleLayout:
        clamp = int(self.step.query.semantics == "set")
        edges = []
        for e, made in enumerate(self.tables):
            first = len(self.index_rows)
            for key, row in zip(made.edge.keys, made.indexes, strict=True):
                self.indexes[e, key] = len(self.index_rows)
                self.index_rows.append({**row, "key": self._list(key), "length": len(key)})
            edges.append({"table": made.table, "first_index": first, "indexes": len(made.indexes), "clamp": clamp})
        for e, edge in enumerate(edges):
            own = [route for route in self.step.routes if self.number[route.changed[0]] == e]
            edge |= {"first_route": len(self.routes), "routes": len(own)}
            for route in own:
                self._route(route)
        joins = Joins(
            f.made(EDGE, edges),
            f.made(INDEX, self.index_rows),
            f.made(ROUTE, self.routes),
            f.made(LEVEL, self.levels),
            f.made(OPERAND, self.operands),
            np.array([*self.lists, 0], np.int64),
            np.zeros(0, np.int64),
        )
        return CycleLayout(self.step, tuple(map(self._edge, self.tables, rows)), self.number, joins)

    def _edge(self, made: EdgeTables, rows: PassageLayout) -> EdgeLayout:
        variables = made.edge.variables
        groups = [
            (row["group"], tuple(variables[i] for i in key))
            for key, row in zip(made.edge.keys, made.indexes, strict=True)
        ]
        return EdgeLayout(made.edge.atom, variables, made.table, rows, tuple(groups))

    def _list(self, numbers: Sequence[int]) -> int:
        self.lists += numbers
        return len(self.lists) - len(numbers)

    def _slots(self, atom: int) -> tuple[int, ...]:
        return tuple(self.slot[v] for v in variables_in_order(self.atoms[atom]))

    def _route(self, route: Route) -> None:
        binds: dict[int, int] = {}
        checks: list[int] = []
        for atom in route.changed:
            for position, slot in enumerate(self._slots(atom)):
                if binds.setdefault(slot, position) != position:
                    checks += [slot, position]
        first, listed = len(self.levels), list(_listed(self.step, route))
        places: dict[tuple[int, int], int] = {}
        for depth, level in enumerate(route.levels):
            self._level(depth, level, [(k, key) for d, k, key in listed if d == depth], places)
        self.routes.append(
            {
                "power": len(route.changed),
                "times": route.times,
                "binds": self._list([n for pair in binds.items() for n in pair]),
                "bound": len(binds),
                "checks": self._list(checks),
                "checked": len(checks) // 2,
                "first": first,
                "levels": len(route.levels),
            }
        )

    def _level(
        self, depth: int, level: Level, keys: Sequence[tuple[Operand, Key]], places: dict[tuple[int, int], int]
    ) -> None:
        """Encode a level. `places` has the operands of each atom that may be scanned, by level."""
        row = {"first": len(self.operands), "operands": len(level.operands), "scans": int(bool(level.variables))}
        row |= {"over": NONE, "over_operand": NONE}
        only = level.operands[0].atom
        for (before, atom), place in places.items():
            if len(level.operands) == 1 and atom == only and level.operands[0].scans:
                row |= {"over": before, "over_operand": place}
        self.levels.append(row)
        for operand in level.operands:
            edge = self.number[operand.atom]
            scanned = [key for each, key in keys if each == operand and operand.scans]
            probed = [key for each, key in keys if each == replaced(operand) and (not operand.scans or each != operand)]
            if operand.scans:
                places[depth, operand.atom] = len(self.operands)
            self.operands.append(
                {
                    "edge": edge,
                    "slots": self._list(self._slots(operand.atom)),
                    "index": self.indexes[edge, scanned[0]] if scanned else NONE,
                    "probe": self.indexes[edge, probed[0]] if probed else NONE,
                    "new": int(operand.is_new),
                }
            )
