"""Lay out a cycle in the arena: a table per edge, one of groups per index, and its routes as kernels read them.

edges_of(step)      the edges: atoms with the same rows share one; and the positions that its lists are by
cycle_layout(…)     the layout, once the fields of all records have their places

With `Cycle.pairs` there is a table of one row too, which says how values are partitioned, and one per view of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from dynq_cli.engine.base_layout import PassageLayout
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.cycle_edges import EDGE, INDEX, LEVEL, OPERAND, ROUTE, Joins
from dynq_cli.engine.kernels.cycle_pairs import TERM, VIEW, Pairs
from dynq_cli.plan.delta_join import Signature, signature, variables_in_order
from dynq_cli.plan.heavy_pairs import thresholds
from dynq_cli.plan.program import Cycle, HeavyPairs, Level, Operand, Route, Weight
from dynq_cli.query.normal_form import Atom, Binding, Scalar
from dynq_cli.records import record

Key = tuple[int, ...]
NONE = -1


@record(frozen=True)
class Edge:
    """Atoms that have the same rows; `atom` is the first of them. `keys` are the positions that lists are by.

    `weights` are what its rows count in sums, beside their copies.
    """

    atom: Atom
    keys: tuple[Key, ...]
    weights: tuple[Weight, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return variables_in_order(self.atom)

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The scalars that weights are made of."""
        return tuple(dict.fromkeys(s for w in self.weights for s in (*w.factors, *w.present)))

    @property
    def scanned(self) -> Atom:
        """The atom with a variable per scalar besides."""
        more = (Binding(name, scalar) for name, scalar in zip(self.names, self.values, strict=True))
        return replace(self.atom, bindings=(*self.atom.bindings, *more))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"value.{i}" for i in range(len(self.values)))


@record()
class EdgeTables:
    """The table of an edge, the fields of its indexes, one per key, and the word of its first weight."""

    edge: Edge
    table: int
    indexes: list[dict[str, int]] = field(default_factory=list)
    weights: int = NONE


@record()
class PairTables:
    """The tables of what is kept beside edges: the places in the one row of `table`, and the fields of views.

    There is a view per changed atom of a route.
    """

    table: int
    exponent: int
    minor: int
    major: int
    totals: int
    views: dict[int, dict[str, int]] = field(default_factory=dict)


@record(frozen=True)
class EdgeLayout:
    """`rows` is how the base delta of its relation is read; `groups` are the tables of lists, with their variables."""

    atom: Atom
    variables: tuple[str, ...]
    table: int
    rows: PassageLayout
    groups: tuple[tuple[int, tuple[str, ...]], ...]
    edge: Edge


@record(frozen=True)
class CycleLayout:
    """`number` gives the edge of each atom. `pairs` and `kept` are there if sums over pairs are kept."""

    step: Cycle
    edges: tuple[EdgeLayout, ...]
    number: tuple[int, ...]
    joins: Joins
    pairs: Pairs | None = None
    kept: PairTables | None = None

    @property
    def tables(self) -> tuple[int, ...]:
        pairs = () if self.kept is None else (self.kept.table, *self.views)
        return tuple(t for e in self.edges for t in (e.table, *(table for table, _ in e.groups))) + pairs

    @property
    def views(self) -> tuple[int, ...]:
        """The tables of pairs."""
        return () if self.kept is None else tuple(v["table"] for v in self.kept.views.values())


def viewed_atoms(step: Cycle) -> tuple[int, ...]:
    """The atoms of whose changed rows the paths between the ends are kept: one per route that goes through lists."""
    return tuple(r.changed[0] for r in step.routes if len(r.changed) == 1)


def edges_of(step: Cycle) -> tuple[Edge, ...]:
    atoms = step.query.atoms
    if step.pairs is not None:
        same: dict[Signature, list[int]] = {}
        for i, atom in enumerate(atoms):
            same.setdefault(signature(atom), []).append(i)
        both = ((0,), (1,))
        return tuple(Edge(atoms[i[0]], both, _weights(step.pairs, i)) for i in same.values())
    first: dict[Signature, Atom] = {}
    keys: dict[Signature, dict[Key, None]] = {}
    for atom in atoms:
        first.setdefault(signature(atom), atom)
        keys.setdefault(signature(atom), {})
    for route in step.routes:
        for _, operand, key in _listed(step, route):
            keys[signature(atoms[operand.atom])][key] = None
    return tuple(Edge(atom, tuple(keys[each])) for each, atom in first.items())


def _weights(pairs: HeavyPairs, atoms: Sequence[int]) -> tuple[Weight, ...]:
    """What some atoms count in sums, beside their copies."""
    return tuple(dict.fromkeys(each[i] for each in pairs.sums for i in atoms if each[i] != Weight()))


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


def cycle_layout(
    step: Cycle, tables: Sequence[EdgeTables], rows: Sequence[PassageLayout], kept: PairTables | None = None
) -> CycleLayout:
    return _Encoder(step, tables, kept).layout(rows)


class _Encoder:
    def __init__(self, step: Cycle, tables: Sequence[EdgeTables], kept: PairTables | None) -> None:
        self.step = step
        self.kept = kept
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
        self.operand_atoms: list[int] = []
        self.encoded: list[Route] = []

    def layout(self, rows: Sequence[PassageLayout]) -> CycleLayout:
        clamp = int(self.step.query.semantics == "set")
        edges = []
        for e, made in enumerate(self.tables):
            first = len(self.index_rows)
            for key, row in zip(made.edge.keys, made.indexes, strict=True):
                self.indexes[e, key] = len(self.index_rows)
                self.index_rows.append({**row, "key": self._list(key), "length": len(key)})
            edge = {"table": made.table, "first_index": first, "indexes": len(made.indexes), "clamp": clamp}
            edges.append(edge | {"weights": made.weights, "weighted": len(made.edge.weights)})
        for e, edge in enumerate(edges):
            own = [route for route in self.step.routes if self.number[route.changed[0]] == e]
            edge |= {"first_route": len(self.routes), "routes": len(own)}
            for route in own:
                self._route(route)
        pairs = None if self.kept is None else self._pairs(self.kept, edges)
        joins = Joins(
            f.made(EDGE, edges),
            f.made(INDEX, self.index_rows),
            f.made(ROUTE, self.routes),
            f.made(LEVEL, self.levels),
            f.made(OPERAND, self.operands),
            np.array([*self.lists, 0], np.int64),
            np.zeros(0, np.int64),
        )
        laid_out = tuple(map(self._edge, self.tables, rows))
        return CycleLayout(self.step, laid_out, self.number, joins, pairs, self.kept)

    def _pairs(self, kept: PairTables, edges: list[dict[str, int]]) -> Pairs:
        """The views of pairs, and what routes read of them; each edge gets to know the views that it is a side of."""
        given = self.step.pairs
        assert given is not None
        sides: list[list[int]] = [[] for _ in edges]
        views, terms = [], []
        for number, (atom, row) in enumerate(kept.views.items()):
            view = {"table": row["table"], "sums": row["sums"]}
            for side, other in zip(("left", "right"), self._others(atom), strict=True):
                e, near = self.number[other], self._near(atom, other)
                view |= {side: e, f"{side}_atom": other}
                view |= {f"{side}_near": self.indexes[e, (near,)], f"{side}_far": self.indexes[e, (1 - near,)]}
                view |= {f"{side}_near_at": near, f"{side}_far_at": 1 - near}
            sides[view["left"]] += [number, 1]
            views.append(view)
        for number, view in enumerate(views):
            # Left sides come first: see `cycle_pairs`.
            sides[view["right"]] += [number, 0]
        for e, edge in enumerate(edges):
            edge |= {"first_view": self._list(sides[e]), "views": len(sides[e]) // 2}
        for route in self.encoded:
            term = {"changed": self._list(route.changed)}
            if len(route.changed) == 1:
                (atom,) = route.changed
                left, right = self._others(atom)
                term |= {"seen": list(kept.views).index(atom), "left": self._meets(atom, left)}
                term |= {"right": self._meets(atom, right)}
            terms.append(term)
        numbers = [[self._number(i, weight) for i, weight in enumerate(each)] for each in given.sums]
        return Pairs(
            f.made(VIEW, views),
            f.made(TERM, terms),
            np.array(numbers, np.int64).reshape(-1),
            np.array([*self.operand_atoms, 0], np.int64),
            np.array(thresholds(given.epsilon), np.int64),
            np.array([kept.table, kept.exponent, kept.minor, kept.major], np.int64),
        )

    def _others(self, atom: int) -> tuple[int, int]:
        left, right = (i for i in range(3) if i != atom)
        return left, right

    def _near(self, atom: int, other: int) -> int:
        """The position in an atom's rows of the variable that it shares with a changed one."""
        shared = self.atoms[atom].variables
        return next(i for i, v in enumerate(variables_in_order(self.atoms[other])) if v in shared)

    def _meets(self, atom: int, other: int) -> int:
        """The position in a changed row of the variable that it shares with another atom."""
        shared = self.atoms[other].variables
        return next(i for i, v in enumerate(variables_in_order(self.atoms[atom])) if v in shared)

    def _number(self, atom: int, weight: Weight) -> int:
        """By which number the rows of an atom know a weight."""
        return 0 if weight == Weight() else 1 + self.tables[self.number[atom]].edge.weights.index(weight)

    def _edge(self, made: EdgeTables, rows: PassageLayout) -> EdgeLayout:
        variables = made.edge.variables
        groups = [
            (row["group"], tuple(variables[i] for i in key))
            for key, row in zip(made.edge.keys, made.indexes, strict=True)
        ]
        return EdgeLayout(made.edge.atom, variables, made.table, rows, tuple(groups), made.edge)

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
        self.encoded.append(route)
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
            self.operand_atoms.append(operand.atom)
            self.operands.append(
                {
                    "edge": edge,
                    "slots": self._list(self._slots(operand.atom)),
                    "index": self.indexes[edge, scanned[0]] if scanned else NONE,
                    "probe": self.indexes[edge, probed[0]] if probed else NONE,
                    "new": int(operand.is_new),
                }
            )
