"""Check what IVM-ε keeps of a cycle against base rows. For tests: O(rows^1.5) and more.

    check_pairs(cycle, arena)           edges, heavy values, views and sums
    total_rows(cycle, arena, names)     the one row of sums, anew

Sums are computed here by nested loops over dictionaries.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from dynq_cli.engine import pairs
from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta_scan import BaseDeltaScan
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.codes import NULL
from dynq_cli.engine.cycle_layout import CycleLayout
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.plan import program
from dynq_cli.plan.delta_join import variables_in_order
from dynq_cli.plan.heavy_pairs import thresholds
from dynq_cli.plan.program import Weight

Row = tuple[int, ...]
Numbers = tuple[int, ...]


def check_pairs(cycle: CycleLayout, arena: Arena) -> None:
    """Assert that N fits the edges, that values are heavy by their lists, and that views have the sums of all paths."""
    assert cycle.kept is not None and cycle.pairs is not None and cycle.step.pairs is not None
    at, sums_asked = record(arena, cycle.kept.table, 0), len(cycle.step.pairs.sums)
    exponent = int(arena.words[at + cycle.kept.exponent])
    rows = sum(int(arena.tables["live"][e.table]) for e in cycle.edges)
    assert rows < 1 << exponent and (4 * rows >= 1 << exponent or not exponent), "N fits the rows of the edges"
    threshold = thresholds(cycle.step.pairs.epsilon)[exponent]
    heavy = [_heavy(cycle, arena, i, threshold, at) for i in range(len(cycle.joins.indexes))]
    edges = [_numbers(cycle, arena, e) for e in range(len(cycle.edges))]
    assert edges == [_base_numbers(cycle, arena, e) for e in range(len(cycle.edges))], "rows count what base rows say"
    if cycle.step.pairs.totals:
        lanes = arena.words[at + cycle.kept.totals :][: 2 * sums_asked]
        assert _joined(lanes) == _totals(cycle, edges), "sums are those of the rows"
    for view in cycle.pairs.views:
        wanted: dict[Row, list[int]] = defaultdict(lambda: [0] * sums_asked)
        by_far: dict[int, list[tuple[int, Numbers]]] = defaultdict(list)
        for row, numbers in edges[view["right"]].items():
            if row[view["right_near_at"]] in heavy[view["right_near"]]:
                by_far[row[view["right_far_at"]]].append((row[view["right_near_at"]], numbers))
        for row, numbers in edges[view["left"]].items():
            if row[view["left_near_at"]] in heavy[view["left_near"]]:
                for x, others in by_far[row[view["left_far_at"]]]:
                    sums = wanted[row[view["left_near_at"]], x]
                    for k in range(len(sums)):
                        own = cycle.pairs.weights[3 * k + view["left_atom"]]
                        other = cycle.pairs.weights[3 * k + view["right_atom"]]
                        sums[k] += numbers[own] * others[other]
        kept = {}
        for r in rows_of(arena, view["table"]):
            start = record(arena, view["table"], r)
            lanes = arena.words[start + view["sums"] :][: 2 * sums_asked]
            kept[tuple(arena.words[start : start + 2].tolist())] = _joined(lanes)
        assert kept == {pair: sums for pair, sums in wanted.items() if any(sums)}, "pairs of heavy values are summed up"


def _heavy(cycle: CycleLayout, arena: Arena, i: int, threshold: int, partition: int) -> set[int]:
    """The heavy values of an index, all of which are in its list."""
    index = cycle.joins.indexes[i]
    found = set()
    for g in rows_of(arena, int(index["group"])):
        at = record(arena, int(index["group"]), g)
        size, is_heavy = int(arena.halves[2 * at + index["size"]]), int(arena.halves[2 * at + index["heavy"]])
        assert is_heavy in (0, 1)
        assert 2 * size >= threshold if is_heavy else 2 * size < 3 * threshold, "a value is heavy by its list"
        if is_heavy:
            found.add(g)
    linked = []
    g = int(arena.halves[2 * partition + index["heavy_head"]])
    while g >= 0:
        linked.append(g)
        g = int(arena.halves[2 * record(arena, int(index["group"]), g) + index["heavy_next"]])
    assert len(linked) == len(found) == arena.halves[2 * partition + index["heavies"]] and set(linked) == found
    return {int(arena.words[record(arena, int(index["group"]), g)]) for g in found}


def _numbers(cycle: CycleLayout, arena: Arena, e: int) -> dict[Row, Numbers]:
    """What each row of an edge counts: its copies, then its weights."""
    edge, clamp = cycle.edges[e], cycle.step.query.semantics == "set"
    mult, first = int(arena.tables["mult"][edge.table]), int(cycle.joins.edges[e]["weights"])
    found = {}
    for r in rows_of(arena, edge.table):
        at = record(arena, edge.table, r)
        copies = int(arena.words[at + mult])
        weights = arena.words[at + first : at + first + len(edge.edge.weights)].tolist() if edge.edge.weights else []
        found[tuple(arena.words[at : at + 2].tolist())] = (min(copies, 1) if clamp else copies, *weights)
    return found


def _joined(lanes: Words) -> list[int]:
    halves = lanes.tolist()
    return [(upper << 64) + (lower & (2**64 - 1)) for lower, upper in zip(halves[::2], halves[1::2], strict=True)]


def _base_numbers(cycle: CycleLayout, arena: Arena, e: int) -> dict[Row, Numbers]:
    """The same from the base rows."""
    edge, clamp = cycle.edges[e], cycle.step.query.semantics == "set"
    codes, copies = BaseDeltaScan(arena, edge.rows, (*edge.variables, *edge.edge.names)).rows()
    found: dict[Row, list[int]] = {}
    for row, many in zip(codes.T.tolist(), copies.tolist(), strict=True):
        values = dict(zip(edge.edge.values, row[2:], strict=True))
        numbers = found.setdefault(tuple(row[:2]), [0] * (1 + len(edge.edge.weights)))
        if clamp:
            many = 0 if numbers[0] else 1
        numbers[0] += many
        for k, weight in enumerate(edge.edge.weights, 1):
            is_there = NULL not in [values[s] for s in (*weight.factors, *weight.present)]
            numbers[k] += many * math.prod(values[s] for s in weight.factors) if is_there else 0
    return {row: tuple(numbers) for row, numbers in found.items()}


def _totals(cycle: CycleLayout, edges: list[dict[Row, Numbers]]) -> list[int]:
    """Σ over the triangles of the product of a weight per atom, for each sum."""
    assert cycle.step.pairs is not None
    names = [cycle.edges[e].variables for e in cycle.number]
    atoms = [variables_in_order(atom) for atom in cycle.step.query.atoms]
    assert all(len(a) == len(b) for a, b in zip(names, atoms, strict=True))
    first, second, third = atoms
    by_shared: dict[int, list[tuple[int, Numbers]]] = defaultdict(list)
    (shared,) = set(first) & set(second)
    for row, numbers in edges[cycle.number[1]].items():
        by_shared[row[second.index(shared)]].append((row[1 - second.index(shared)], numbers))
    totals = [0] * len(cycle.step.pairs.sums)
    ends = first[1 - first.index(shared)], second[1 - second.index(shared)]
    for row, numbers in edges[cycle.number[0]].items():
        for end, others in by_shared[row[first.index(shared)]]:
            bound = {ends[0]: row[1 - first.index(shared)], ends[1]: end}
            last = edges[cycle.number[2]].get(tuple(bound[v] for v in third))
            for k, weights in enumerate(cycle.step.pairs.sums if last else ()):
                given = zip((numbers, others, last or ()), range(3), strict=True)
                totals[k] += math.prod(each[_place(cycle, i, weights[i])] for each, i in given)
    return totals


def _place(cycle: CycleLayout, atom: int, weight: Weight) -> int:
    return 0 if weight == Weight() else 1 + cycle.edges[cycle.number[atom]].edge.weights.index(weight)


def total_rows(cycle: CycleLayout, arena: Arena, names: Sequence[str]) -> tuple[Words, Words]:
    """The result of a cycle with sums: codes, one row per name, and multiplicities."""
    assert cycle.step.pairs is not None
    totals = _totals(cycle, [_base_numbers(cycle, arena, e) for e in range(len(cycle.edges))])
    if not totals[0]:
        return np.zeros((len(names), 0), np.int64), np.zeros(0, np.int64)
    codes: dict[str, int] = {}
    for each in cycle.step.pairs.totals:
        number = totals[each.sum]
        pair = pairs.split_number(number) if totals[each.present] else (NULL, NULL)
        codes |= {program.high(each.name): pair[0], program.low(each.name): pair[1]}
    return np.array([[codes[name]] for name in names], np.int64), np.ones(1, np.int64)
