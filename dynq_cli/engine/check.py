"""Assert every invariant of the engine's data structures. For tests: O(data)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import order_statistic_blocks as b
from dynq_cli.engine.kernels.bounds import is_in_range
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.table import find
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.order_statistic_tree import check_pools, from_lanes
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.tree_layout import TreeLayout

Payload = tuple[int, ...]


def check_engine(layout: Layout, arena: Arena, ordered: CountedTrees) -> None:
    check_arena(arena)
    for table in range(len(arena.tables)):
        if arena.tables["mask"][table] >= 0:
            check_table(arena, table)
    for base in layout.bases.values():
        mult = int(arena.tables["mult"][base.table])
        for r in rows_of(arena, base.table):
            assert arena.words[record(arena, base.table, r) + mult] > 0, "a base row without a copy"
    for tree in layout.trees.values():
        for node in range(tree.first, tree.stop):
            _check_node(layout, arena, tree, node)
        _check_references(layout, arena, tree, ordered)
    _check_ordered(arena, ordered)


def rows_of(arena: Arena, table: int) -> set[int]:
    """The live rows of a table, read off its slots."""
    slots, mask = int(arena.tables["slots"][table]), int(arena.tables["mask"][table])
    found = [int(s & f.ROW_OF_SLOT) - 1 for s in arena.words[slots : slots + mask + 1] if s]
    assert len(found) == len(set(found)), "a row in two slots"
    return set(found)


def check_arena(arena: Arena) -> None:
    """Assert that records, slots and free regions lie in the arena and do not overlap."""
    regions = [(at, size, "hole") for at, size in arena.holes]
    for t, row in enumerate(arena.tables):
        regions.append((int(row["rows"]), int(row["capacity"] * row["stride"]), f"records of table {t}"))
        if row["mask"] >= 0:
            regions.append((int(row["slots"]), int(row["mask"]) + 1, f"slots of table {t}"))
    regions.sort()
    for (at, size, what), (following, _, other) in pairwise(regions):
        assert at + size <= following, f"{what} runs into {other}"
    assert regions[-1][0] + regions[-1][1] <= arena.top <= len(arena.words)


def record(arena: Arena, table: int, row: int) -> int:
    """Where the record of a row starts, in words."""
    return int(arena.tables["rows"][table]) + row * int(arena.tables["stride"][table])


def _narrow(arena: Arena, table: int, row: int, place: int) -> int:
    return int(arena.halves[2 * record(arena, table, row) + int(place)])


def check_table(arena: Arena, table: int) -> None:
    row = arena.tables[table]
    live = rows_of(arena, table)
    assert len(live) == row["live"], "live rows are those in slots"
    assert 3 * len(live) <= 2 * (int(row["mask"]) + 1), "a third of the slots is free, so that probing ends"
    free, at = set(), int(row["free"])
    arity = int(row["arity"])
    while at >= 0:
        assert at not in free, "a row is free twice"
        free.add(at)
        at = int(arena.words[record(arena, table, at)])
    assert not live & free and len(live) + len(free) == row["used"] <= row["capacity"]
    for r in live:
        start = record(arena, table, r)
        key = arena.words[start : start + arity].copy()
        assert find(arena.store, table, key) == r, "a row is found by its codes"
        assert _narrow(arena, table, r, row["mark"]) == 0, "no row is marked between batches"
    assert row["queue_head"] == row["queue_tail"] == -1, "no row is queued between batches"


def _lanes(arena: Arena, place: int, width: int) -> Payload:
    lanes = [int(x) for x in arena.words[place : place + width]]
    return tuple((hi << 64) + (lo & (2**64 - 1)) for lo, hi in zip(lanes[::2], lanes[1::2], strict=True))


def members_of(layout: Layout, arena: Arena, node: int) -> dict[int, Payload]:
    """The rows of a node and their payload."""
    n = arena.nodes[node]
    table, columns = int(n["table"]), int(n["width"]) // 2
    rows = rows_of(arena, table)
    if n["degree"]:
        return {r: _lanes(arena, record(arena, table, r) + int(n["value"]), int(n["width"])) for r in rows}
    if table in layout.base_tables and n["leaf_row"] >= 0:
        rows = {r for r in rows if _narrow(arena, table, r, n["leaf_row"]) >= 0}
    many = {r: int(arena.words[record(arena, table, r) + arena.tables["mult"][table]]) for r in rows}
    return {r: ((min(m, 1) if n["clamp"] else m), int(m > 0))[:columns] for r, m in many.items()}


def _check_node(layout: Layout, arena: Arena, tree: TreeLayout, node: int) -> None:
    n = arena.nodes[node]
    members = members_of(layout, arena, node)
    if n["degree"]:
        for r, payload in members.items():
            assert payload == _product(layout, arena, node, r), f"value of row {r} of node {node}"
    if node == tree.root:
        return
    if n["waiting"] >= 0:
        _check_waiting(layout, arena, n, members)
        return
    table, group = int(n["table"]), int(n["group"])
    sums: dict[int, list[int]] = {}
    live: dict[int, set[int]] = {}
    for r, payload in members.items():
        g = _narrow(arena, table, r, n["gid"])
        total = sums.setdefault(g, [0] * len(payload))
        for i, p in enumerate(payload):
            total[i] += p
        if payload[0]:
            live.setdefault(g, set()).add(r)
    for g in rows_of(arena, group):
        kept = _lanes(arena, record(arena, group, g) + int(n["sums"]), int(n["width"]))
        assert kept == tuple(sums.get(g, [0] * len(kept))), f"sum of group {g} of node {node}"
        if n["output"]:
            head = _narrow(arena, group, g, n["head"])
            linked = _list(arena, table, head, n["next"], n["prev"])
            assert set(linked) == live.get(g, set()), "the list has the live rows"
    assert set(sums) <= rows_of(arena, group), "every group is there"


def _check_waiting(layout: Layout, arena: Arena, n: Any, members: dict[int, Payload]) -> None:
    """Assert that groups of waiting readers count their ranges, and where their live rows are. O(readers · rows)."""
    child, table = arena.nodes[n["waiting"]], int(n["table"])
    rows: dict[int, list[int]] = {}
    weights = members_of(layout, arena, int(n["waiting"]))
    for r in weights:
        rows.setdefault(_narrow(arena, int(child["table"]), r, child["gid"]), []).append(r)
    for g in rows_of(arena, int(n["group"])):
        total, counted, live = [0] * (int(n["width"]) // 2), set(), set()
        for reader, payload in members.items():
            at = record(arena, table, reader)
            if _narrow(arena, table, reader, n["gid"]) != g or not payload[0]:
                continue
            if arena.words[at + arena.store.trees.orders[n["tree"], 0]["position"]] != NULL:
                counted.add(reader)
            for row in rows.get(_narrow(arena, table, reader, child["reads"]), ()):
                there = record(arena, int(child["table"]), row)
                if is_in_range(arena.store, int(child["readers"]), at, int(child["tree"]), there):
                    total = [t + p * w for t, p, w in zip(total, payload, weights[row], strict=True)]
                    live |= {reader} if weights[row][0] else set()
        at = record(arena, int(n["group"]), g)
        assert tuple(total) == _lanes(arena, at + int(n["sums"]), int(n["width"])), f"sum of group {g} of readers"
        if n["output"]:
            linked = list(_list(arena, table, _narrow(arena, int(n["group"]), g, n["head"]), n["next"], n["prev"]))
            assert set(linked) == counted, "the list has the readers that count"
            begin, end = (_narrow(arena, int(n["group"]), g, n[place]) for place in ("begin", "end"))
            part = linked[linked.index(begin) : linked.index(end) + 1] if begin >= 0 else []
            assert set(part) == live and (begin < 0) == (end < 0), "live readers are one part of the list"


def _product(layout: Layout, arena: Arena, node: int, row: int) -> Payload:
    n = arena.nodes[node]
    value = [1] * (int(n["width"]) // 2)
    for c in layout.lists[n["children"] : n["children"] + n["degree"]]:
        child = arena.nodes[c]
        if child["waits"] >= 0:
            continue
        g = row if child["own"] else _narrow(arena, int(n["table"]), row, child["reads"])
        total = _lanes(arena, record(arena, int(child["list_table"]), g) + int(child["total"]), int(child["width"]))
        for i in range(len(value)):
            value[i] *= total[i] if i < len(total) else 1
    if n["clamp"]:
        value[0] = min(value[0], 1)
    if len(value) > 1 and n["frontier"]:
        value[1] = int(value[0] > 0)
    return tuple(value)


def _check_ordered(arena: Arena, ordered: CountedTrees) -> None:
    """Assert that every ordered group has its live rows in order, both in its tree and in its list."""
    blocks: list[int] = []
    for n in arena.nodes[arena.nodes["tree"] >= 0]:
        tree, group, table = ordered.tree(int(n["tree"])), int(n["group"]), int(n["table"])
        roots = []
        for g in rows_of(arena, group):
            roots.append(2 * record(arena, group, g) + int(n["root"]))
            if n["output"]:
                head = _narrow(arena, group, g, n["head"])
                linked = _list(arena, table, head, n["next"], n["prev"])
                assert tree.all_rows(roots[-1]) == list(linked), "list and tree have the same order"
            kept = _lanes(arena, record(arena, group, g) + int(n["sums"]), 2 * tree.columns)
            assert n["waiting"] >= 0 or tree.total(roots[-1]) == kept, "a tree counts what its group does"
        blocks += tree.check_groups(roots)
        assert n["note"] < 0 or (n["first_note"], n["pending"]) == (-1, 0), "nothing is pending between commits"
        if n["readers"] >= 0 and n["waits"] < 0:
            blocks += _check_ranges(arena, ordered, n, rows_of(arena, group))
    forest = ordered.trees.forest
    if len(forest):
        check_pools(arena, int(forest["pools"][0]), blocks)


def _list(arena: Arena, table: int, head: int, following: int, previous: int) -> dict[int, None]:
    """Return the rows of a list, in order."""
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
    wanted: Counter[tuple[int, int]] = Counter({(int(arena.nodes["table"][tree.root]), 0): 1})
    for node in range(tree.first, tree.stop):
        n = arena.nodes[node]
        if node == tree.root:
            continue
        group = int(n["group"])
        for r in members_of(layout, arena, node):
            wanted[group, _narrow(arena, int(n["table"]), r, n["gid"])] += 1
        if not n["guard"]:
            above = int(arena.nodes["table"][n["parent"]])
            readers: dict[int, set[int]] = {}
            for r in rows_of(arena, above):
                g = _narrow(arena, above, r, n["reads"])
                wanted[group, g] += 1
                readers.setdefault(g, set()).add(r)
            for g in rows_of(arena, group) if n["waits"] < 0 else ():
                if n["readers"] >= 0:
                    readers_at = 2 * record(arena, group, g) + int(n["readers_root"])
                    linked = dict.fromkeys(ordered.tree(int(n["readers"])).all_rows(readers_at))
                else:
                    head = _narrow(arena, group, g, n["reader_head"])
                    linked = _list(arena, above, head, n["reader_next"], n["reader_prev"])
                assert set(linked) == readers.get(g, set()), "every reader of a group is linked to it"
    tables = {t for t, _ in wanted}
    for t in tables:
        rows = rows_of(arena, t)
        assert rows == {r for table, r in wanted if table == t}, "a row that nothing refers to"
        for r in rows:
            assert _narrow(arena, t, r, arena.tables["refs"][t]) == wanted[t, r], "references are counted"


def _check_ranges(arena: Arena, ordered: CountedTrees, n: Any, groups: Iterable[int]) -> list[int]:
    """Assert that readers of a compared node, a row of `nodes`, have the sums of their ranges. O(readers · rows).

    Return the codes of the blocks of the readers' trees.
    """
    a = arena
    tree, readers = ordered.tree(int(n["tree"])), ordered.tree(int(n["readers"]))
    table, above = int(n["table"]), int(arena.nodes["table"][n["parent"]])
    assert n["fresh"] == -1, "nobody is about to read between commits"
    roots = []
    for g in groups:
        at = 2 * record(a, int(n["group"]), g)
        rows, root = tree.all_rows(at + int(n["root"])), at + int(n["readers_root"])
        roots.append(root)
        for reader in readers.all_rows(root):
            mine = record(a, above, reader)
            first, last = (int(a.halves[2 * mine + int(n[place])]) for place in ("begin", "end"))
            total = from_lanes(a.words[mine + int(n["total"]) :][: int(n["width"])])
            seen = [
                row
                for row in rows
                if is_in_range(a.store, int(n["readers"]), mine, int(n["tree"]), record(a, table, row))
            ]
            assert (first, last) == ((seen[0], seen[-1]) if seen else (-1, -1)), "where a range begins and ends"
            assert total == _sum_of(arena, int(n["tree"]), seen, len(total)), "the sum over a range"
    return readers.check_groups(roots)


def _sum_of(arena: Arena, tree: int, rows: list[int], columns: int) -> tuple[int, ...]:
    totals = [0] * columns
    for row in rows:
        for i in range(columns):
            lo, hi = b.payload(arena.store, tree, row, 2 * i)
            totals[i] += (int(hi) << 64) + (int(lo) & (2**64 - 1))
    return tuple(totals)
