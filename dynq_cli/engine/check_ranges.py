"""Check the stored range sums of readers against the rows in their ranges. For tests: O(readers × rows)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import order_statistic_blocks as b
from dynq_cli.engine.kernels.bounds import is_in_range
from dynq_cli.engine.order_statistic_tree import from_lanes
from dynq_cli.engine.order_statistic_trees import CountedTrees


def check_ranges(arena: Arena, ordered: CountedTrees, n: Any, groups: Iterable[int]) -> list[int]:
    """Assert what readers of a compared node, a row of `nodes`, say of its groups; the codes of their blocks."""
    a = arena
    tree, readers = ordered.tree(int(n["tree"])), ordered.tree(int(n["readers"]))
    table, above = int(n["table"]), int(arena.nodes["table"][n["parent"]])
    assert (n["first_note"], n["fresh"], n["pending"]) == (-1, -1, 0), "nothing is pending between commits"
    roots = []
    for g in groups:
        at = 2 * _record(a, int(n["group"]), g)
        rows, root = tree.all_rows(at + int(n["root"])), at + int(n["readers_root"])
        roots.append(root)
        for reader in readers.all_rows(root):
            mine = _record(a, above, reader)
            first, last = (int(a.halves[2 * mine + int(n[place])]) for place in ("begin", "end"))
            total = from_lanes(a.words[mine + int(n["total"]) :][: int(n["width"])])
            seen = [
                row
                for row in rows
                if is_in_range(a.store, int(n["readers"]), mine, int(n["tree"]), _record(a, table, row))
            ]
            assert (first, last) == ((seen[0], seen[-1]) if seen else (-1, -1)), "where a range begins and ends"
            assert total == _sum(arena, int(n["tree"]), seen, len(total)), "the sum over a range"
    return readers.check_groups(roots)


def _record(arena: Arena, table: int, row: int) -> int:
    return int(arena.tables["rows"][table]) + row * int(arena.tables["stride"][table])


def _sum(arena: Arena, tree: int, rows: list[int], columns: int) -> tuple[int, ...]:
    totals = [0] * columns
    for row in rows:
        for i in range(columns):
            lo, hi = b.payload(arena.store, tree, row, 2 * i)
            totals[i] += (int(hi) << 64) + (int(lo) & (2**64 - 1))
    return tuple(totals)
