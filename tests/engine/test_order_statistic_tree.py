"""Counted trees agree with a sorted list that adds up by hand, and keep every invariant, whatever comes and goes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from sortedcontainers import SortedKeyList

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.order_statistic_blocks import COUNT, LANES, POOLS, UNIT
from dynq_cli.engine.kernels.order_statistic_search import AFTER_EQUAL, BEFORE_EQUAL, LEAST, MOST
from dynq_cli.engine.order_statistic_tree import CountedTree, OrderKey, Sizes, TreeDescription, pools, reserve, to_lanes
from tests.every_case import every_case

SMALL = Sizes((2, 4, 6, 8), (4, 6, 8))
# Labels in another order than ids, and not from the start of their array.
LABELS_AT = 5
LABELS = np.concatenate([np.full(LABELS_AT, -7), np.random.default_rng(3).permutation(64) * 1000 - 30_000])

ORDERS = {
    "ascending": (OrderKey(0),),
    "descending": (OrderKey(0, descending=True),),
    "labelled": (OrderKey(0, labels=LABELS_AT),),
    "labelled, descending, NULL first": (OrderKey(0, descending=True, nulls_first=True, labels=LABELS_AT),),
    "two keys": (OrderKey(1, descending=True), OrderKey(0)),
    "three keys": (OrderKey(2, labels=LABELS_AT), OrderKey(0, nulls_first=True), OrderKey(1, descending=True)),
}
Payload = tuple[int, ...]


class Groups:
    """Groups of rows in an arena, and beside each of them a sorted list of the same rows."""

    ROWS, GROUPS, FIRST_POOL = 0, 1, 2
    ARITY = 3

    def __init__(
        self,
        order: Sequence[OrderKey],
        kind: int = LANES,
        columns: int = 2,
        *,
        sizes: Sizes = SMALL,
        groups: int = 4,
        rows: int = 400,
    ) -> None:
        self.kind, self.columns, self.order = kind, columns, order
        tables = [f.blank(f.TABLE), f.blank(f.TABLE), *pools(sizes, 2 * columns)]
        for table, stride, many in ((self.ROWS, self.ARITY + 2 * columns, rows), (self.GROUPS, 1, groups)):
            tables[table]["stride"] = stride
            tables[table]["mask"] = tables[table]["live"] = tables[table]["capacity"] = 0
            tables[table]["used"] = many
        self.arena = Arena(f.made(f.TABLE, tables))
        self.arena.reserve(self.ROWS, rows)
        self.arena.reserve(self.GROUPS, groups)
        for g in range(groups):
            self.arena.halves[self.root_at(g)] = -1
        place = TreeDescription(self.ROWS, kind, self.ARITY, 2 * columns, self.FIRST_POOL, tuple(order))
        self.tree = CountedTree(self.arena, place, LABELS)
        self.lists = [SortedKeyList(key=self.sort_key) for _ in range(groups)]
        self.codes: dict[int, tuple[int, ...]] = {}
        self.payload: dict[int, Payload] = {}
        self.group_of: dict[int, int] = {}
        self.free = list(range(rows))

    def root_at(self, group: int) -> int:
        return 2 * (int(self.arena.tables["rows"][self.GROUPS]) + group)

    def sort_key(self, row: int) -> tuple[object, ...]:
        """What SQL's ORDER BY says, without images: NULLs apart, then the value, negated where it descends."""
        parts: list[object] = []
        for key in self.order:
            code = self.codes[row][key.position]
            value = code if code == NULL or key.labels < 0 else int(LABELS[key.labels + code])
            parts.append(
                ((code == NULL) != key.nulls_first, 0 if code == NULL else -value if key.descending else value)
            )
        return (*parts, row)

    def write(self, row: int, codes: Sequence[int], payload: Payload) -> None:
        at = int(self.arena.tables["rows"][self.ROWS]) + row * int(self.arena.tables["stride"][self.ROWS])
        self.arena.words[at : at + self.ARITY] = codes
        if self.kind == LANES:
            self.arena.words[at + self.ARITY : at + self.ARITY + 2 * self.columns] = to_lanes(payload)
        else:
            self.arena.words[at + self.ARITY] = payload[0] if self.kind == COUNT else 77
        self.codes[row], self.payload[row] = tuple(codes), payload

    def some_payload(self, rng: random.Random) -> Payload:
        if self.kind == UNIT:
            return (1,) * self.columns
        if self.kind == COUNT:
            return (rng.choice([1, 2, 2**62]), *[1] * (self.columns - 1))
        return tuple(rng.choice([0, 1, 3, 2**64 - 1, 2**64, rng.getrandbits(110)]) for _ in range(self.columns))

    def some_codes(self, rng: random.Random, spread: int) -> list[int]:
        return [NULL if rng.random() < 0.05 else rng.randrange(spread) for _ in range(self.ARITY)]

    def insert(self, group: int, codes: Sequence[int], payload: Payload, row: int | None = None) -> int:
        if row is None:
            row = self.free.pop()
        else:
            self.free.remove(row)
        self.write(row, codes, payload)
        self.group_of[row] = group
        self.lists[group].add(row)
        self.reserve(1)
        self.tree.insert(self.root_at(group), row)
        return row

    def reserve(self, operations: int) -> None:
        reserve(self.arena, self.FIRST_POOL, operations, len(self.group_of))

    def delete(self, row: int) -> None:
        group = self.group_of[row]
        self.reserve(1)
        self.tree.delete(self.root_at(group), row)
        self.lists[group].remove(row)
        del self.group_of[row]
        # A free row may be anything: nothing may look at it.
        self.write(row, [123456789] * self.ARITY, (2**50,) * self.columns)
        self.free.append(row)

    def change(self, row: int, payload: Payload) -> None:
        old = self.payload[row]
        self.write(row, self.codes[row], payload)
        self.tree.change(self.root_at(self.group_of[row]), row, old, payload)

    def clear(self, group: int) -> None:
        self.tree.clear(self.root_at(group))
        for row in self.lists[group]:
            del self.group_of[row]
            self.free.append(row)
        self.lists[group].clear()

    def rebuild(self, group: int) -> None:
        """Take everything out and build the group anew from its sorted rows."""
        self.tree.clear(self.root_at(group))
        self.reserve(2 * len(self.lists[group]))
        self.tree.build(self.root_at(group), list(self.lists[group]))

    def sums(self, group: int) -> list[Payload]:
        """What comes before each row, and all of it."""
        each = [self.payload[row] for row in self.lists[group]]
        add = lambda x, y: tuple(a + b for a, b in zip(x, y, strict=True))  # noqa: E731
        return list(accumulate(each, add, initial=(0,) * self.columns))

    def check(self) -> None:
        self.tree._check(self.root_at(g) for g in range(len(self.lists)))
        for g, rows in enumerate(self.lists):
            assert self.tree.all_rows(self.root_at(g)) == list(rows)

    def check_reads(self, group: int, rng: random.Random) -> None:
        tree, at, rows, sums = self.tree, self.root_at(group), list(self.lists[group]), self.sums(group)
        assert tree.all_rows(at, forward=False) == rows[::-1]
        assert tree.total(at) == sums[-1] == tree.between(at)
        images = [tree.images(row) for row in rows]
        for i in rng.sample(range(len(rows)), min(5, len(rows))):
            assert tree.before(at, rows[i]) == sums[i]
            found = tree.seek(at, images[i], rows[i])
            assert found is not None and tree.rows(found, 3) == rows[i : i + 3]
            assert tree.rows(found, 3, forward=False) == rows[: i + 1][-3:][::-1]
            assert tree.rows(tree.seek_back(at, images[i], rows[i]), 1) == rows[:i][-1:]
            assert tree.rows(tree.seek(at, images[i], rows[i] + 1), 1) == rows[i + 1 : i + 2]
        self.check_bounds(group, rng, images, sums)
        self.check_select(group, rng, sums)

    def check_bounds(self, group: int, rng: random.Random, images: list[tuple[int, ...]], sums: list[Payload]) -> None:
        tree, at, rows = self.tree, self.root_at(group), list(self.lists[group])
        seen = [i[0] for i in images]
        near = [rng.choice(seen) + rng.choice([-1, 0, 0, 1]) if seen else 0 for _ in range(6)]
        bounds = [LEAST, MOST, *(min(max(bound, LEAST), MOST) for bound in near)]
        for low in bounds:
            for tie, many in ((BEFORE_EQUAL, sum(s < low for s in seen)), (AFTER_EQUAL, sum(s <= low for s in seen))):
                assert tree.rows(tree.seek(at, [low], tie), 1) == rows[many : many + 1]
                assert tree.rows(tree.seek_back(at, [low], tie), 1) == rows[:many][-1:]
            high, after_low, after_high = rng.choice(bounds), rng.random() < 0.5, rng.random() < 0.5
            start = sum(s <= low if after_low else s < low for s in seen)
            stop = max(start, sum(s <= high if after_high else s < high for s in seen))
            wanted = tuple(y - x for x, y in zip(sums[start], sums[stop], strict=True))
            assert tree.between(at, low, high, after_low=after_low, after_high=after_high) == wanted

    def check_select(self, group: int, rng: random.Random, sums: list[Payload]) -> None:
        tree, at, rows = self.tree, self.root_at(group), list(self.lists[group])
        for column in range(self.columns):
            total = sums[-1][column]
            assert tree.select(at, column, total) is None
            for j in {0, total - 1, *(rng.randrange(total) for _ in range(3 if total else 0))}:
                if 0 <= j < total:
                    found = tree.select(at, column, j)
                    assert found is not None
                    i = rows.index(tree.row(found[0]))
                    assert sums[i][column] <= j < sums[i + 1][column] and found[1] == j - sums[i][column]


@pytest.fixture(autouse=True)
def _no_spare_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `reserve` says is enough has to be enough."""
    monkeypatch.setattr(Arena, "larger", lambda *_: 0)


def play(groups: Groups, seed: int, steps: int, most: int) -> None:
    """Random actions, in phases: groups that grow, shrink, get rows in order or lose them at one end."""
    rng = random.Random(seed)
    spread, arrival, shrinking = 10, "random", False
    for step in range(steps):
        if step % 60 == 0:
            spread = rng.choice([2, 10, 64])
            arrival = rng.choice(["random", "behind", "before"])
            shrinking = len(groups.group_of) > most // 2 and rng.random() < 0.8
        group = min(rng.randrange(len(groups.lists)), rng.randrange(len(groups.lists)))
        here = groups.lists[group]
        what = rng.random()
        if what < 0.1 and here:
            groups.change(rng.choice(here), groups.some_payload(rng))
        elif what < 0.11:
            groups.rebuild(group)
        elif what < 0.113:
            groups.clear(group)
        elif here and (len(groups.group_of) >= most or rng.random() < (0.9 if shrinking else 0.25)):
            groups.delete({"random": rng.choice(here), "behind": here[-1], "before": here[0]}[arrival])
        else:
            codes = groups.some_codes(rng, spread)
            if here and arrival != "random":
                codes = list(groups.codes[here[-1] if arrival == "behind" else here[0]])
            groups.insert(group, codes, groups.some_payload(rng), row=rng.choice(groups.free))
        groups.check()
        if step % 7 == 0:
            groups.check_reads(group, rng)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("seed", range(2))
def test_any_history_agrees_with_a_sorted_list(name: str, seed: int) -> None:
    play(Groups(ORDERS[name]), seed, steps=400, most=120)


@pytest.mark.parametrize(("kind", "columns"), [(COUNT, 2), (UNIT, 1), (UNIT, 2), (LANES, 3)])
def test_any_way_to_read_payload_adds_up(kind: int, columns: int) -> None:
    play(Groups(ORDERS["ascending"], kind, columns), seed=columns, steps=300, most=120)


@pytest.mark.parametrize("sizes", [Sizes((2, 4, 6, 12), (4, 6, 10)), Sizes()])
def test_any_size_of_blocks_does(sizes: Sizes) -> None:
    play(Groups(ORDERS["ascending"], sizes=sizes, groups=2), seed=11, steps=300, most=200)


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("backwards", [False, True])
def test_rows_that_come_in_order_fill_their_blocks(order: str, backwards: bool) -> None:
    groups = Groups(ORDERS[order], groups=1)
    keys = range(300)[::-1] if backwards else range(300)
    for key in keys:
        groups.insert(0, [key, 0, 0], (1, 1))
    groups.check()
    leaves = groups.arena.tables["live"][groups.FIRST_POOL + 3]
    assert leaves == -(-300 // 8)


@every_case("many", [0, 1, 2, 3, 5, 7, 9, 20, 70, 333])
def test_a_group_built_at_once_reads_like_one_built_row_by_row(many: int) -> None:
    rng = random.Random(many)
    one, other = Groups(ORDERS["two keys"], groups=1), Groups(ORDERS["two keys"], groups=1)
    for _ in range(many):
        codes, payload = one.some_codes(rng, 20), one.some_payload(rng)
        one.insert(0, codes, payload)
        other.insert(0, codes, payload)
    other.rebuild(0)
    other.check()
    other.check_reads(0, rng)
    assert other.tree.all_rows(other.root_at(0)) == one.tree.all_rows(one.root_at(0))
    assert other.tree.total(other.root_at(0)) == one.tree.total(one.root_at(0))
    for row in rng.sample(sorted(other.group_of), many):
        other.delete(row)
        other.check()


def test_what_is_freed_is_used_again() -> None:
    groups = Groups(ORDERS["ascending"])
    used = []
    for _ in range(3):
        for i in range(300):
            groups.insert(i % 3, [i * 37 % 101, 0, 0], (1, 1))
        groups.check()
        for row in sorted(groups.group_of)[::2]:
            groups.delete(row)
        for group in range(4):
            groups.clear(group)
        groups.check()
        blocks = groups.arena.tables[groups.FIRST_POOL : groups.FIRST_POOL + POOLS]
        assert not blocks["live"].any()
        used.append(blocks["used"].tolist())
    assert used[0] == used[1] == used[2]


def test_one_history_gives_the_same_words_twice() -> None:
    one, other = Groups(ORDERS["three keys"]), Groups(ORDERS["three keys"])
    play(one, seed=5, steps=150, most=100)
    play(other, seed=5, steps=150, most=100)
    assert (one.arena.tables == other.arena.tables).all()
    assert (one.arena.words[: one.arena.top] == other.arena.words[: other.arena.top]).all()


def test_small_groups_take_no_more_than_they_should() -> None:
    groups = Groups(ORDERS["ascending"], sizes=Sizes(), groups=3)

    def words() -> int:
        return sum(int(pool["live"] * pool["stride"]) for pool in groups.arena.tables[groups.FIRST_POOL :])

    groups.insert(0, [1, 0, 0], (1, 1))
    assert words() == 0
    for key in range(3):
        groups.insert(0, [key, 0, 0], (1, 1))
        assert words() == 2


def test_a_value_next_to_null_is_not_null() -> None:
    groups = Groups(ORDERS["ascending"], groups=1)
    for key in (2**63 - 1, NULL, -(2**63) + 1, 0):
        groups.insert(0, [key, 0, 0], (1, 1))
    groups.check()
    assert [groups.codes[row][0] for row in groups.lists[0]] == [-(2**63) + 1, 0, 2**63 - 1, NULL]
