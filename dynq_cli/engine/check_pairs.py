"""Check what IVM-ε keeps of a cycle against the rows of its edges. For tests: O(rows^1.5) and more.

Sums over paths are computed here by nested loops over dictionaries.
"""

from __future__ import annotations

from collections import defaultdict

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.cycle_layout import CycleLayout
from dynq_cli.plan.heavy_pairs import thresholds

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
            lanes = arena.words[start + view["sums"] :][: 2 * sums_asked].tolist()
            kept[tuple(arena.words[start : start + 2].tolist())] = [
                (upper << 64) + (lower & (2**64 - 1)) for lower, upper in zip(lanes[::2], lanes[1::2], strict=True)
            ]
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
