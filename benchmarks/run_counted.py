"""Order-statistic trees: time per row of each operation, beside linking rows into lists and a sorted list in Python.

    python benchmarks/run_counted.py [ROWS]

All loops run inside kernels, rows in random order, two payload columns; the best of three, in processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sortedcontainers import SortedKeyList

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import groups, order_statistic_search, order_statistic_tree
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.kernels.order_statistic_blocks import LANES
from dynq_cli.engine.order_statistic_tree import CountedTree, OrderKey, Sizes, TreeDescription, pools, reserve

TIMES = 3
ROWS, GROUPS, FIRST_POOL = 0, 1, 2
STRIDE, WIDTH = 6, 4  # a code, two columns, two links
insert, delete, link = order_statistic_tree.insert, order_statistic_tree.delete, groups.link
select, sum_before_row = order_statistic_search.select, order_statistic_search.sum_before_row


@kernel
def insert_all(store, roots, rows):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        insert(store, 0, roots[i], rows[i])


@kernel
def delete_all(store, roots, rows):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        delete(store, 0, roots[i], rows[i])


@kernel
def select_all(store, root, wanted):  # type: ignore[no-untyped-def]
    for i in range(len(wanted)):
        select(store, 0, root, 0, wanted[i], 0)


@kernel
def rank_all(store, root, rows, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        sum_before_row(store, 0, root, rows[i], out)


@kernel
def link_all(store, heads, rows):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        link(store, 0, rows[i], heads[i], 2 * STRIDE - 2, 2 * STRIDE - 1)


def timed(action: Callable[..., Any], *given: Any) -> float:
    start = time.thread_time()
    action(*given)
    return time.thread_time() - start


def world(keys: Words, many: int) -> tuple[Arena, CountedTree, int]:
    """An arena with a row per key, each counting 1, and empty groups, the first of which stands at the place given."""
    n = len(keys)
    tables = [f.blank(f.TABLE), f.blank(f.TABLE), *pools(Sizes(), WIDTH)]
    for table, stride, used in ((ROWS, STRIDE, n), (GROUPS, 1, many)):
        tables[table]["stride"], tables[table]["used"] = stride, used
        tables[table]["mask"] = tables[table]["live"] = tables[table]["capacity"] = 0
    arena = Arena(f.made(f.TABLE, tables))
    arena.reserve(ROWS, n)
    arena.reserve(GROUPS, many)
    reserve(arena, FIRST_POOL, n, n)
    start, heads = int(arena.tables["rows"][ROWS]), 2 * int(arena.tables["rows"][GROUPS])
    records = arena.words[start : start + n * STRIDE].reshape(n, STRIDE)
    records[:] = 0
    records[:, 0], records[:, 1], records[:, 3] = keys, 1, 1
    arena.halves[heads : heads + 2 * many] = -1
    described = TreeDescription(ROWS, LANES, 1, WIDTH, FIRST_POOL, (OrderKey(0),))
    return arena, CountedTree(arena, described), heads


def measure(n: int, many: int, in_order: bool) -> dict[str, float]:
    best: dict[str, float] = {}
    for seed in range(TIMES):
        rng = np.random.default_rng(seed)
        keys = rng.permutation(n)
        rows = np.argsort(keys) if in_order else np.arange(n)
        arena, tree, heads = world(keys, many)
        roots = heads + 2 * (rng.permutation(n) % many)
        took = {"link": timed(link_all, tree.store, roots, rows) / n}
        arena.halves[heads : heads + 2 * many] = -1
        took["insert"] = timed(insert_all, tree.store, roots, rows) / n
        words = sum(int(pool["live"] * pool["stride"]) for pool in arena.tables[FIRST_POOL:])
        some, root = rng.permutation(n)[: n // 10 + 1], int(arena.halves[heads])
        if many == 1:
            took["select"] = timed(select_all, tree.store, root, some) / len(some)
            took["rank"] = timed(rank_all, tree.store, root, some, np.zeros(WIDTH, np.int64)) / len(some)
        out = np.arange(n) if in_order else rng.permutation(n)
        took["delete"] = timed(delete_all, tree.store, roots[out], rows[out]) / n
        best = {name: min(best.get(name, 1.0), seconds) for name, seconds in took.items()}
    return {name: seconds * 1e9 for name, seconds in best.items()} | {"bytes": 8 * words / n}


def sorted_list(n: int) -> dict[str, float]:
    """The same on one group, by sortedcontainers."""
    rng = np.random.default_rng(0)
    keys: list[int] = rng.permutation(n).tolist()
    some: list[int] = rng.permutation(n)[: n // 10 + 1].tolist()
    rows = SortedKeyList(key=keys.__getitem__)
    each = {
        "insert": (n, lambda: [rows.add(row) for row in range(n)]),
        "select": (len(some), lambda: [rows[j] for j in some]),
        "rank": (len(some), lambda: [rows.index(row) for row in some]),
        "delete": (len(some), lambda: [rows.remove(row) for row in some]),
    }
    return {name: timed(action) / times * 1e9 for name, (times, action) in each.items()}


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    measure(1000, 1, False)
    shapes = {"one group": 1, "groups of 50": n // 50, "groups of 10": n // 10, "groups of 2": n // 2}
    print(f"{n:,} rows; ns per row, and bytes of blocks per row")
    for name, many in shapes.items():
        for in_order in (False, True):
            found = measure(n, many, in_order)
            numbers = "  ".join(f"{what} {took:6.1f}" for what, took in found.items())
            ratio = found["insert"] / found["link"]
            print(f"{name:13} {'in order' if in_order else 'random':8}  {numbers}  insert/link {ratio:.0f}×")
    print(f"{'sortedcontainers':22}  " + "  ".join(f"{what} {took:6.1f}" for what, took in sorted_list(n).items()))


if __name__ == "__main__":
    main()
