"""What rows of a node keep of their ranges, held against the rows that are in them. For tests: O(readers × rows)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import order_statistic_blocks as b
from dynq_cli.engine.kernels.bounds import is_in_range
from dynq_cli.engine.order_statistic_tree import from_lanes
from dynq_cli.engine.order_statistic_trees import CountedTrees


def check_ranges(arena: Arena, ordered: CountedTrees, n: Any, groups: Iterable[int]) -> list[int]:
    """Assert what readers of a compared node, a row of `N`, say of its groups; the codes of their blocks."""
    a, C, labels = arena, ordered.trees.C, ordered.trees.labels
    tree, readers = ordered.tree(int(n[f.N_TREE])), ordered.tree(int(n[f.N_READERS]))
    table, above = int(n[f.N_TABLE]), int(arena.N[n[f.N_PARENT], f.N_TABLE])
    assert (n[f.N_NOTES], n[f.N_FRESH], n[f.N_PENDING]) == (-1, -1, 0), "nothing is pending between commits"
    roots = []
    for g in groups:
        at = 2 * _record(a, int(n[f.N_GROUP]), g)
        rows, root = tree.all_rows(at + int(n[f.N_ROOT])), at + int(n[f.N_RROOT])
        roots.append(root)
        for reader in readers.all_rows(root):
            mine = _record(a, above, reader)
            first, last = (int(a.a32[2 * mine + int(n[place])]) for place in (f.N_BEGIN, f.N_END))
            total = from_lanes(a.a64[mine + int(n[f.N_TOTAL]) :][: int(n[f.N_WIDTH])])
            seen = [
                row
                for row in rows
                if is_in_range(a.a64, C, labels, int(n[f.N_READERS]), mine, int(n[f.N_TREE]), _record(a, table, row))
            ]
            assert (first, last) == ((seen[0], seen[-1]) if seen else (-1, -1)), "where a range begins and ends"
            assert total == _sum(arena, ordered, int(n[f.N_TREE]), seen, len(total)), "the sum over a range"
    return readers.check_groups(roots)


def _record(arena: Arena, table: int, row: int) -> int:
    return int(arena.T[table, f.T_ROWS]) + row * int(arena.T[table, f.T_STRIDE])


def _sum(arena: Arena, ordered: CountedTrees, tree: int, rows: list[int], columns: int) -> tuple[int, ...]:
    totals = [0] * columns
    for row in rows:
        for i in range(columns):
            lo, hi = b.payload(arena.a64, arena.T, ordered.trees.C, tree, row, 2 * i)
            totals[i] += (int(hi) << 64) + (int(lo) & (2**64 - 1))
    return tuple(totals)
