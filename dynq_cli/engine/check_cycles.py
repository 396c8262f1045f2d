"""Check what is kept of cycles against base rows, and compute their results anew. For tests: O(data + joins).

Joins are computed here by dictionaries and nested loops, and know nothing of lists and routes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta_scan import BaseDeltaScan
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.check_pairs import check_pairs, total_rows
from dynq_cli.engine.cycle_layout import CycleLayout, EdgeLayout
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import Layout
from dynq_cli.plan.delta_join import variables_in_order

Row = tuple[int, ...]


def check_cycles(layout: Layout, arena: Arena) -> None:
    """Assert that the edges of every cycle have the rows of its atoms, and that every row is in its lists."""
    for cycle in layout.cycles.values():
        for e, edge in enumerate(cycle.edges):
            codes, copies = BaseDeltaScan(arena, edge.rows, edge.variables).rows()
            wanted: Counter[Row] = Counter()
            for row, many in zip(codes.T.tolist(), copies.tolist(), strict=True):
                wanted[tuple(row)] += many
            assert _edge_rows(arena, edge) == wanted, f"edge {e} of {cycle.step.name} has the rows of its atom"
            _check_lists(arena, cycle, e)
        if cycle.pairs is not None:
            check_pairs(cycle, arena)


def _edge_rows(arena: Arena, edge: EdgeLayout) -> Counter[Row]:
    found: Counter[Row] = Counter()
    place = int(arena.tables["mult"][edge.table])
    for row in rows_of(arena, edge.table):
        at = record(arena, edge.table, row)
        found[_codes(arena, at, len(edge.variables))] = int(arena.words[at + place])
    return found


def _codes(arena: Arena, at: int, many: int) -> Row:
    return tuple(arena.words[at : at + many].tolist())


def _check_lists(arena: Arena, cycle: CycleLayout, e: int) -> None:
    edge, row = cycle.edges[e], cycle.joins.edges[e]
    first = int(row["first_index"])
    for number, (table, variables) in enumerate(edge.groups, first):
        index = cycle.joins.indexes[number]
        positions = [edge.variables.index(v) for v in variables]
        members: dict[Row, set[int]] = {}
        for r in rows_of(arena, edge.table):
            codes = _codes(arena, record(arena, edge.table, r), len(edge.variables))
            members.setdefault(tuple(codes[p] for p in positions), set()).add(r)
        groups = {g: record(arena, table, g) for g in rows_of(arena, table)}
        kept = {_codes(arena, at, len(positions)): (g, 2 * at) for g, at in groups.items()}
        assert set(kept) == set(members), "a list for every value"
        for key, (g, at) in kept.items():
            linked, before = [], -1
            here = int(arena.halves[at + index["head"]])
            while here >= 0:
                there = 2 * record(arena, edge.table, here)
                assert arena.halves[there + index["prev"]] == before, "lists are linked both ways"
                assert arena.halves[there + index["gid"]] == g, "a row knows its list"
                linked.append(here)
                before, here = here, int(arena.halves[there + index["next"]])
            assert len(linked) == len(set(linked)) == arena.halves[at + index["size"]], "a list knows its length"
            assert set(linked) == members[key], "a list has the rows with its value"


def cycle_rows(cycle: CycleLayout, arena: Arena, variables: Sequence[str]) -> tuple[Words, Words]:
    """Return the result of a cycle in some variables: codes, one row per variable, and multiplicities."""
    if cycle.step.pairs is not None and cycle.step.pairs.totals:
        return total_rows(cycle, arena, variables)
    query, clamp = cycle.step.query, cycle.step.query.semantics == "set"
    bindings: list[tuple[dict[str, int], int]] = [({}, 1)]
    for atom, e in zip(query.atoms, cycle.number, strict=True):
        names, rows = variables_in_order(atom), _edge_rows(arena, cycle.edges[e])
        shared = [v for v in names if bindings and v in bindings[0][0]]
        by_shared: dict[Row, list[tuple[dict[str, int], int]]] = {}
        for row, many in rows.items():
            values = dict(zip(names, row, strict=True))
            key = tuple(values[v] for v in shared)
            by_shared.setdefault(key, []).append((values, 1 if clamp else many))
        bindings = [
            ({**bound, **values}, many * more)
            for bound, many in bindings
            for values, more in by_shared.get(tuple(bound[v] for v in shared), ())
        ]
    total: Counter[Row] = Counter()
    for bound, many in bindings:
        total[tuple(bound.get(v, 1) for v in variables)] += many
    codes = np.array(list(total), np.int64).reshape(len(total), len(variables)).T
    return codes, np.array(list(total.values()), np.int64)
