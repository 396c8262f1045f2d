"""Every invariant of the engine's structures, asserted by looking at all of them. For tests: O(data)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.check_ranges import check_ranges
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.order_statistic_blocks import C_POOLS
from dynq_cli.engine.kernels.table import find
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.order_statistic_tree import check_pools
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.tree_layout import TreeLayout

Payload = tuple[int, ...]


def check_engine(layout: Layout, arena: Arena, ordered: CountedTrees) -> None:
    check_arena(arena)
    for table in range(len(arena.T)):
        if arena.T[table, f.T_MASK] >= 0:
            check_table(arena, table)
    for base in layout.bases.values():
        mult = int(arena.T[base.table, f.T_MULT])
        for r in rows_of(arena, base.table):
            assert arena.a64[record(arena, base.table, r) + mult] > 0, "a base row without a copy"
    for tree in layout.trees.values():
        for node in range(tree.first, tree.stop):
            _check_node(layout, arena, tree, node)
        _check_references(layout, arena, tree, ordered)
    _check_ordered(arena, ordered)


def rows_of(arena: Arena, table: int) -> set[int]:
    """The live rows of a table, read off its slots."""
    slots, mask = int(arena.T[table, f.T_SLOTS]), int(arena.T[table, f.T_MASK])
    found = [int(s & f.ROW_OF_SLOT) - 1 for s in arena.a64[slots : slots + mask + 1] if s]
    assert len(found) == len(set(found)), "a row in two slots"
    return set(found)


def check_arena(arena: Arena) -> None:
    """Records and slots lie in the arena, apart from each other and from the holes."""
    regions = [(at, size, "hole") for at, size in arena.holes]
    for t, row in enumerate(arena.T):
        regions.append((int(row[f.T_ROWS]), int(row[f.T_CAPACITY] * row[f.T_STRIDE]), f"records of table {t}"))
        if row[f.T_MASK] >= 0:
            regions.append((int(row[f.T_SLOTS]), int(row[f.T_MASK]) + 1, f"slots of table {t}"))
    regions.sort()
    for (at, size, what), (following, _, other) in pairwise(regions):
        assert at + size <= following, f"{what} runs into {other}"
    assert regions[-1][0] + regions[-1][1] <= arena.top <= len(arena.a64)


def record(arena: Arena, table: int, row: int) -> int:
    """Where the record of a row starts, in words."""
    return int(arena.T[table, f.T_ROWS]) + row * int(arena.T[table, f.T_STRIDE])


def _narrow(arena: Arena, table: int, row: int, place: int) -> int:
    return int(arena.a32[2 * record(arena, table, row) + int(place)])


def check_table(arena: Arena, table: int) -> None:
    row = arena.T[table]
    live = rows_of(arena, table)
    assert len(live) == row[f.T_LIVE], "live rows are those in slots"
    assert 3 * len(live) <= 2 * (int(row[f.T_MASK]) + 1), "a third of the slots is free, so that probing ends"
    free, at = set(), int(row[f.T_FREE])
    arity = int(row[f.T_ARITY])
    while at >= 0:
        assert at not in free, "a row is free twice"
        free.add(at)
        at = int(arena.a64[record(arena, table, at)])
    assert not live & free and len(live) + len(free) == row[f.T_USED] <= row[f.T_CAPACITY]
    for r in live:
        start = record(arena, table, r)
        key = arena.a64[start : start + arity].copy()
        assert find(arena.a64, arena.T, table, key) == r, "a row is found by its codes"
        assert _narrow(arena, table, r, row[f.T_MARK]) == 0, "no row is marked between batches"
    assert row[f.T_QHEAD] == row[f.T_QTAIL] == -1, "no row is queued between batches"


def _lanes(arena: Arena, place: int, width: int) -> Payload:
    lanes = [int(x) for x in arena.a64[place : place + width]]
    return tuple((hi << 64) + (lo & (2**64 - 1)) for lo, hi in zip(lanes[::2], lanes[1::2], strict=True))


def members_of(layout: Layout, arena: Arena, node: int) -> dict[int, Payload]:
    """The rows of a node and their payload."""
    n = arena.N[node]
    table, columns = int(n[f.N_TABLE]), int(n[f.N_WIDTH]) // 2
    rows = rows_of(arena, table)
    if n[f.N_DEGREE]:
        return {r: _lanes(arena, record(arena, table, r) + int(n[f.N_VALUE]), int(n[f.N_WIDTH])) for r in rows}
    if table in layout.base_tables and n[f.N_LEAF_ROW] >= 0:
        rows = {r for r in rows if _narrow(arena, table, r, n[f.N_LEAF_ROW]) >= 0}
    many = {r: int(arena.a64[record(arena, table, r) + arena.T[table, f.T_MULT]]) for r in rows}
    return {r: ((min(m, 1) if n[f.N_CLAMP] else m), int(m > 0))[:columns] for r, m in many.items()}


def _check_node(layout: Layout, arena: Arena, tree: TreeLayout, node: int) -> None:
    n = arena.N[node]
    members = members_of(layout, arena, node)
    if n[f.N_DEGREE]:
        for r, payload in members.items():
            assert payload == _product(layout, arena, node, r), f"value of row {r} of node {node}"
    if node == tree.root:
        return
    table, group = int(n[f.N_TABLE]), int(n[f.N_GROUP])
    sums: dict[int, list[int]] = {}
    live: dict[int, set[int]] = {}
    for r, payload in members.items():
        g = _narrow(arena, table, r, n[f.N_GID])
        total = sums.setdefault(g, [0] * len(payload))
        for i, p in enumerate(payload):
            total[i] += p
        if payload[0]:
            live.setdefault(g, set()).add(r)
    for g in rows_of(arena, group):
        kept = _lanes(arena, record(arena, group, g) + int(n[f.N_SUM]), int(n[f.N_WIDTH]))
        assert kept == tuple(sums.get(g, [0] * len(kept))), f"sum of group {g} of node {node}"
        if n[f.N_OUTPUT]:
            head = _narrow(arena, group, g, n[f.N_HEAD])
            linked = _list(arena, table, head, n[f.N_NEXT], n[f.N_PREV])
            assert set(linked) == live.get(g, set()), "the list has the live rows"
    assert set(sums) <= rows_of(arena, group), "every group is there"


def _product(layout: Layout, arena: Arena, node: int, row: int) -> Payload:
    n = arena.N[node]
    value = [1] * (int(n[f.N_WIDTH]) // 2)
    for c in layout.lists[n[f.N_CHILDREN] : n[f.N_CHILDREN] + n[f.N_DEGREE]]:
        child = arena.N[c]
        g = row if child[f.N_OWN] else _narrow(arena, int(n[f.N_TABLE]), row, child[f.N_VGID])
        total = _lanes(arena, record(arena, int(child[f.N_LISTS]), g) + int(child[f.N_TOTAL]), int(child[f.N_WIDTH]))
        for i in range(len(value)):
            value[i] *= total[i] if i < len(total) else 1
    if n[f.N_CLAMP]:
        value[0] = min(value[0], 1)
    if len(value) > 1 and n[f.N_FRONTIER]:
        value[1] = int(value[0] > 0)
    return tuple(value)


def _check_ordered(arena: Arena, ordered: CountedTrees) -> None:
    """Every ordered group has its live rows in order, in its tree as in its list."""
    blocks: list[int] = []
    for n in arena.N[arena.N[:, f.N_TREE] >= 0]:
        tree, group, table = ordered.tree(int(n[f.N_TREE])), int(n[f.N_GROUP]), int(n[f.N_TABLE])
        roots = []
        for g in rows_of(arena, group):
            roots.append(2 * record(arena, group, g) + int(n[f.N_ROOT]))
            if n[f.N_OUTPUT]:
                head = _narrow(arena, group, g, n[f.N_HEAD])
                linked = _list(arena, table, head, n[f.N_NEXT], n[f.N_PREV])
                assert tree.all_rows(roots[-1]) == list(linked), "list and tree have the same order"
            kept = _lanes(arena, record(arena, group, g) + int(n[f.N_SUM]), 2 * tree.columns)
            assert tree.total(roots[-1]) == kept, "a tree counts what its group does"
        blocks += tree.check_groups(roots)
        if n[f.N_READERS] >= 0:
            blocks += check_ranges(arena, ordered, n, rows_of(arena, group))
    if len(ordered.trees.C):
        check_pools(arena, int(ordered.trees.C[0, C_POOLS]), blocks)


def _list(arena: Arena, table: int, head: int, following: int, previous: int) -> dict[int, None]:
    """The rows of a list, in its order."""
    found: dict[int, None] = {}
    before = -1
    while head >= 0:
        assert head not in found, "a list that never ends"
        assert _narrow(arena, table, head, previous) == before, "links both ways"
        found[head] = None
        before, head = head, _narrow(arena, table, head, following)
    return found


def _check_references(layout: Layout, arena: Arena, tree: TreeLayout, ordered: CountedTrees) -> None:
    """Rows of inner nodes and groups are there exactly as long as something refers to them."""
    wanted: Counter[tuple[int, int]] = Counter({(int(arena.N[tree.root, f.N_TABLE]), 0): 1})
    for node in range(tree.first, tree.stop):
        n = arena.N[node]
        if node == tree.root:
            continue
        group = int(n[f.N_GROUP])
        for r in members_of(layout, arena, node):
            wanted[group, _narrow(arena, int(n[f.N_TABLE]), r, n[f.N_GID])] += 1
        if not n[f.N_GUARD]:
            above = int(arena.N[n[f.N_PARENT], f.N_TABLE])
            readers: dict[int, set[int]] = {}
            for r in rows_of(arena, above):
                g = _narrow(arena, above, r, n[f.N_VGID])
                wanted[group, g] += 1
                readers.setdefault(g, set()).add(r)
            for g in rows_of(arena, group):
                if n[f.N_READERS] >= 0:
                    readers_at = 2 * record(arena, group, g) + int(n[f.N_RROOT])
                    linked = dict.fromkeys(ordered.tree(int(n[f.N_READERS])).all_rows(readers_at))
                else:
                    head = _narrow(arena, group, g, n[f.N_VHEAD])
                    linked = _list(arena, above, head, n[f.N_VNEXT], n[f.N_VPREV])
                assert set(linked) == readers.get(g, set()), "every reader of a group is linked to it"
    tables = {t for t, _ in wanted}
    for t in tables:
        rows = rows_of(arena, t)
        assert rows == {r for table, r in wanted if table == t}, "a row that nothing refers to"
        for r in rows:
            assert _narrow(arena, t, r, arena.T[t, f.T_REFS]) == wanted[t, r], "references are counted"
