"""Order-statistic trees: the rows of each group in order, with partial sums of their values.

    rows(g) in the order of (order keys…, row id);   sums over any range of rows, and the row where a sum is reached

This module wraps the kernels: the description of a tree, room for its blocks, one method per operation, and `_check`. A
tree has no memory of its own: rows, blocks and the codes of groups are in an arena.

With two payload columns, a row of a large group takes 14 bytes if rows were inserted in order, 21 to 22 after random
inserts and deletes, and 28 right after every second one was deleted. A group with one row takes four bytes for its
code; one with up to four rows 16 bytes more; beyond that, about 20 bytes per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.edges import Bound
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import order_statistic_blocks as b
from dynq_cli.engine.kernels import order_statistic_search as search
from dynq_cli.engine.kernels import order_statistic_tree as changes
from dynq_cli.engine.kernels.fields import Row, Rows, Store, Trees, Words
from dynq_cli.records import record

_LOW = 2**64 - 1
Cursor = tuple[int, int]


@record(frozen=True)
class Sizes:
    """Capacities of blocks: even numbers, ascending for each kind; at least four for inner blocks."""

    leaves: tuple[int, int, int, int] = (4, 8, 16, 32)
    inner: tuple[int, int, int] = (4, 12, 32)


@record(frozen=True)
class OrderKey:
    """One key of an order: its index in the record, and the start of its labels if it is an id of a dictionary.

    By default NULL comes last in either direction, as in SQL.
    """

    position: int
    descending: bool = False
    nulls_first: bool = False
    labels: int = -1

    def numbers(self) -> list[int]:
        flip = -1 if self.descending else 0
        shift = (1 if self.nulls_first else 0) if self.descending else (0 if self.nulls_first else -1)
        return [self.position, self.labels, flip, shift]


@record(frozen=True)
class TreeDescription:
    """A tree: a row of `kernels.fields.TREE`, its order keys, and the bounds of its rows' ranges if these are readers.

    `first_pool` is -1 until the tables of the blocks are known.
    """

    table: int
    payload: int
    place: int
    width: int
    first_pool: int
    order: tuple[OrderKey, ...]
    bounds: tuple[Bound, ...] = ()

    def row(self) -> dict[str, int]:
        return {
            "table": self.table,
            "payload": self.payload,
            "place": self.place,
            "width": self.width,
            "pools": self.first_pool,
            "keys": len(self.order),
            "bounds": len(self.bounds),
        }


def trees_of(described: Sequence[TreeDescription], labels: Words | None = None, scratch: int = 0) -> Trees:
    """Trees as kernels have them; `scratch` are words behind those that every operation needs."""
    none = f.no_trees()
    if not described:
        return none._replace(path=np.zeros(b.TARGET + scratch, np.int64))
    most = max(len(tree.order) for tree in described)
    path = np.zeros(b.TARGET + most + max(tree.width for tree in described) + scratch, np.int64)
    return none._replace(
        forest=f.made(f.TREE, [tree.row() for tree in described]),
        orders=_padded(f.ORDER, [[key.numbers() for key in tree.order] for tree in described]),
        bounds=_padded(f.BOUND, [[bound.numbers() for bound in tree.bounds] for tree in described]),
        labels=np.zeros(1, np.int64) if labels is None else labels,
        path=path,
    )


def _padded(kind: np.dtype[Any], several: Sequence[Sequence[Sequence[int]]]) -> Rows:
    """Rows of rows, filled up to the most that one has, one at least."""
    most = max(1, *map(len, several))
    blank = [-1] * (kind.itemsize // 8)
    numbers = [[*rows, *[blank] * (most - len(rows))] for rows in several]
    return f.rows_of(kind, np.array(numbers, np.int64)).reshape(len(several), most)


def pools(sizes: Sizes, width: int) -> list[dict[str, int]]:
    """The tables for the blocks of trees whose payload has `width` lanes; trees may share them."""
    made = []
    for size, most in enumerate((*sizes.leaves, *sizes.inner)):
        row = f.blank(f.TABLE)
        row["arity"] = most
        row["capacity"] = row["used"] = row["live"] = 0
        if size == b.TINY:
            row["stride"] = most // 2
        else:
            row["stride"] = b.HEADER + most // 2 + most + (most // 2 + most * width if size >= b.INNER else 0)
        made.append(row)
    return made


def reserve(arena: Arena, first_pool: int, operations: int, rows: int) -> None:
    """Make room for this many inserts and deletes, if the trees of these pools never hold more than `rows` rows.

    An operation takes at most one leaf, and one inner block per level. Over many operations, the rows bound the blocks:
    a root has more entries than three quarters of the next smaller size; of three neighbouring leaves below an inner
    block, at least one is a quarter full; for inner blocks see `_most_inner`. Room takes address space, not memory.
    O(1) unless pools grow.
    """
    sizes = [int(arena.tables["arity"][first_pool + size]) for size in range(b.POOLS)]
    most = [rows // (smaller * 3 // 4 + 1) + 1 for smaller in (1, *sizes[: b.LARGEST_LEAF])]
    most[b.LARGEST_LEAF] = leaves = max(most[b.LARGEST_LEAF], 12 * rows // sizes[b.LARGEST_LEAF] + 1)
    most += _most_inner(sizes[b.INNER :], leaves)
    for size in range(b.POOLS):
        row = arena.tables[first_pool + size]
        taken = operations * rows.bit_length() if size >= b.INNER else operations
        needed = min(int(row["live"]) + taken, most[size])
        if needed > row["capacity"]:
            arena.grow_records(first_pool + size, max(needed, arena.larger(first_pool + size)))


def _most_inner(sizes: Sequence[int], leaves: int) -> list[int]:
    """Return the maximum number of inner blocks above this many leaves, by size.

    Blocks of the smaller two sizes are roots, with at least two children, or more than three quarters of the smallest
    size. Of the largest size, all blocks of a level except the first and last of a tree are a quarter full, and a tree
    with both has more children than one block holds. With q = maximum ratio of blocks to children, there are
    q + q² + … per leaf, and never more than leaves. One more of each size is taken before another is freed.
    """
    share = 1 / max(sizes[-1] // 4, 2) + 2 / (sizes[-1] + 1)
    largest = int(leaves * share / (1 - share)) if share < 0.5 else leaves
    return [leaves // 2 + 1, leaves // (sizes[0] * 3 // 4 + 1) + 1, largest + 1]


class CountedTree:
    """One tree of an arena: the groups that are ordered alike. `root_at` is where a group's code stands, in half words.

    Payloads are passed and returned as one integer per column.
    """

    def __init__(self, arena: Arena, description: TreeDescription, labels: Words | None = None) -> None:
        self.arena = arena
        self.table, self.first_pool = description.table, description.first_pool
        self.keys, self.columns = len(description.order), description.width // 2
        self.trees = trees_of([description], labels)

    @property
    def store(self) -> Store:
        """The arena, with this tree alone."""
        return self.arena.store._replace(trees=self.trees)

    def insert(self, root_at: int, row: int) -> None:
        """O(log n); the caller has reserved room."""
        changes.insert(self.store, 0, root_at, row)

    def delete(self, root_at: int, row: int) -> None:
        """O(log n); the record still holds what the row counted."""
        changes.delete(self.store, 0, root_at, row)

    def change(self, root_at: int, row: int, old: Iterable[int], new: Iterable[int]) -> None:
        """O(log n)."""
        changes.change(self.store, 0, root_at, row, to_lanes(old), to_lanes(new))

    def build(self, root_at: int, rows: Sequence[int] | Words) -> None:
        """Fill an empty group with rows in order. O(n)."""
        given = np.array(rows, np.int64)
        changes.build(self.store, 0, root_at, given, len(given))

    def clear(self, root_at: int) -> None:
        """O(blocks)."""
        changes.clear(self.store, 0, root_at)

    def total(self, root_at: int) -> tuple[int, ...]:
        """O(1)."""
        out = self._out()
        search.total(self.store, 0, self._root(root_at), out)
        return from_lanes(out)

    def before(self, root_at: int, row: int) -> tuple[int, ...]:
        """What the rows before a row count. O(log n)."""
        out = self._out()
        search.sum_before_row(self.store, 0, self._root(root_at), row, out)
        return from_lanes(out)

    def between(
        self,
        root_at: int,
        low: int = search.LEAST,
        high: int = search.MOST,
        *,
        after_low: bool = False,
        after_high: bool = True,
    ) -> tuple[int, ...]:
        """What the rows count whose first key's image lies between two. O(log n)."""
        out = self._out()
        search.sum_between(self.store, 0, self._root(root_at), low, after_low, high, after_high, out)
        return from_lanes(out)

    def select(self, root_at: int, column: int, j: int) -> tuple[Cursor, int] | None:
        """The row where the column's sum passes j, and what is left of j there; None if it never does. O(log n)."""
        lo, hi = to_lanes([j])
        code, entry, lo, hi = search.select(self.store, 0, self._root(root_at), 2 * column, lo, hi)
        return None if code == b.NONE else ((int(code), int(entry)), (int(hi) << 64) + (int(lo) & _LOW))

    def seek(self, root_at: int, images: Sequence[int], tie: int = search.BEFORE_EQUAL) -> Cursor | None:
        """Find the first row that is not before a target. O(log n)."""
        return self._sought(search.seek, root_at, images, tie)

    def seek_back(self, root_at: int, images: Sequence[int], tie: int = search.BEFORE_EQUAL) -> Cursor | None:
        """Find the last row before a target. O(log n)."""
        return self._sought(search.seek_back, root_at, images, tie)

    def images(self, row: int) -> tuple[int, ...]:
        """What a row is compared by, but for its id."""
        search.aim(self.store, 0, row)
        return tuple(int(i) for i in self.trees.path[b.TARGET : b.TARGET + self.keys])

    def row(self, cursor: Cursor) -> int:
        return self.rows(cursor, 1)[0]

    def rows(self, cursor: Cursor | None, most: int, *, forward: bool = True) -> list[int]:
        """Return row ids from a cursor on. O(1) per row."""
        if cursor is None:
            return []
        out = np.zeros(most, np.int64)
        n, _, _ = search.collect(self.store, 0, cursor[0], cursor[1], forward, out)
        return [int(row) for row in out[:n]]

    def all_rows(self, root_at: int, *, forward: bool = True) -> list[int]:
        end = search.first if forward else search.last
        code, entry = end(self.store, 0, self._root(root_at))
        return self.rows((int(code), int(entry)), int(self.arena.tables["used"][self.table]), forward=forward)

    def _sought(self, find: Callable[..., Cursor], root_at: int, images: Sequence[int], tie: int) -> Cursor | None:
        self.trees.path[b.TARGET : b.TARGET + len(images)] = images
        code, entry = find(self.store, 0, len(images), tie, self._root(root_at))
        return None if code == b.NONE else (int(code), int(entry))

    def _root(self, root_at: int) -> int:
        return int(self.arena.halves[root_at])

    def _out(self) -> Words:
        return np.zeros(2 * self.columns, np.int64)

    def _check(self, roots: Iterable[int]) -> None:
        """Assert every invariant, if these are all groups of all trees on the same pools. O(n)."""
        check_pools(self.arena, self.first_pool, self.check_groups(roots))

    def check_groups(self, roots: Iterable[int]) -> list[int]:
        """Assert every invariant of some groups; return the codes of their blocks."""
        return [code for root_at in roots for code in _Checked(self).group(self._root(root_at))]


def check_pools(arena: Arena, first_pool: int, used: list[int]) -> None:
    """Assert that exactly these blocks are in use, each once, and that all others are free."""
    assert len(used) == len(set(used)), "a block is in two places"
    for size in range(b.POOLS):
        pool = arena.tables[first_pool + size]
        live = {(-2 - code) >> 3 for code in used if (-2 - code) & 7 == size}
        free = set(_free_blocks(arena, pool))
        assert len(live) == pool["live"] and not live & free, f"blocks of size {size} in use"
        assert len(live) + len(free) == pool["used"] <= pool["capacity"], f"blocks of size {size}"


def _free_blocks(arena: Arena, pool: Row) -> Iterator[int]:
    number = int(pool["free"])
    while number >= 0:
        yield number
        number = int(arena.words[pool["rows"] + number * pool["stride"]])


class _Checked:
    """Checks one group from its root down."""

    def __init__(self, tree: CountedTree) -> None:
        self.tree = tree
        self.arena = tree.arena
        self.used: list[int] = []
        self.leaves: list[tuple[int, int]] = []

    def group(self, root: int) -> list[int]:
        """Return the codes of the group's blocks."""
        if root >= b.NONE:
            return []
        rows, _ = self._below(root, 0, True, True)
        keys = [(self.tree.images(row), row) for row in rows]
        assert all(x < y for x, y in pairwise(keys)), "rows are in order"
        assert len(rows) > 1, "a row by itself has no block"
        assert len({depth for _, depth in self.leaves}) == 1, "leaves are equally deep"
        if (-2 - root) & 7 != b.TINY:
            codes = [b.NONE, *(code for code, _ in self.leaves), b.NONE]
            for before, code, behind in zip(codes, codes[1:], codes[2:], strict=False):
                at = 2 * self._at(code)
                assert list(self.arena.halves[at + 2 : at + 4]) == [behind, before], "leaves are linked in order"
        return self.used

    def _at(self, code: int) -> int:
        return int(b.block(self.tree.store, 0, code))

    def _room(self, size: int) -> int:
        return int(self.arena.tables["arity"][self.tree.first_pool + size])

    def _below(self, code: int, depth: int, is_first: bool, is_last: bool) -> tuple[list[int], tuple[int, ...]]:
        """The rows below a block and what they count."""
        halves, size, at = self.arena.halves, (-2 - code) & 7, self._at(code)
        most, n = self._room(size), int(b.length(self.tree.store, 0, code))
        self.used.append(code)
        self._check_size(size, n, depth, is_first or is_last)
        start = 2 * at if size == b.TINY else int(b.rows_at(at))
        rows = [int(row) for row in halves[start : start + n]]
        if size != b.TINY:
            kept = [int(key) for key in self.arena.words[b.keys_at(at, most) :][:n]]
            assert kept == [int(b.key_of(self.tree.store, 0, row)) for row in rows]
        if size < b.INNER:
            self.leaves.append((code, depth))
            return rows, self._sum(self._payload(row) for row in rows)
        found: list[int] = []
        sums = []
        width = 2 * self.tree.columns
        for i in range(n):
            child = int(halves[b.children_at(at, most) + i])
            below, total = self._below(child, depth + 1, is_first and i == 0, is_last and i == n - 1)
            assert below[0] == rows[i], "an entry has the first row below it"
            place = int(b.sums_at(at, most)) + i * width
            assert from_lanes(self.arena.words[place : place + width]) == total, "sums are those of the rows below"
            found += below
            sums.append(total)
        return found, self._sum(sums)

    def _check_size(self, size: int, n: int, depth: int, is_at_an_end: bool) -> None:
        assert n <= self._room(size)
        largest, smallest = (b.LARGEST_INNER, b.INNER) if size >= b.INNER else (b.LARGEST_LEAF, b.TINY)
        if depth:
            assert size == largest, "only a root is smaller than the largest"
            least = 1 if is_at_an_end else max(self._room(size) // 4, 2 if size >= b.INNER else 1)
            assert n >= least, "a block holds enough"
        else:
            assert n >= 2, "a root has two entries"
            assert size == smallest or n > self._room(size - 1) * 3 // 4, "a root is no larger than it needs to be"

    def _payload(self, row: int) -> tuple[int, ...]:
        store = self.tree.store
        lanes = [b.payload(store, 0, row, 2 * column) for column in range(self.tree.columns)]
        return from_lanes(np.array(lanes, np.int64).ravel())

    def _sum(self, each: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        totals = [0] * self.tree.columns
        for payload in each:
            totals = [x + y for x, y in zip(totals, payload, strict=True)]
        return tuple(totals)


def to_lanes(payload: Iterable[int]) -> Words:
    """Convert one integer per column to two lanes per column."""
    lanes = [lane for value in payload for lane in (value & _LOW, value >> 64)]
    return np.array(lanes, np.uint64).view(np.int64)


def from_lanes(lanes: Words) -> tuple[int, ...]:
    pairs = [int(lane) for lane in lanes]
    return tuple((hi << 64) + (lo & _LOW) for lo, hi in zip(pairs[::2], pairs[1::2], strict=True))
