"""Read a result from several trees, its members: counts, blocks of rows, one row.

    count()     O(terms): inclusion–exclusion over the counts of the trees; without terms, O(rows)
    blocks()    every distinct row once, O(block) memory
    copies()    the multiplicity of one row, O(members)

Each member has a cursor, and rows are enumerated in blocks (Algorithm 15 of the thesis). If a later member also has a
row, the row is left to that member, whose cursor yields one of its rows instead, and so on. So every row taken from the
first cursor yields one result row: constant delay, in blocks. Rows that fail a comparison of `where`, or that a tree of
`lacking` has, are filtered out, with no bound on the number of such rows between two results.

The order depends only on the trees, not on the block size: cursors advance in steps of `STEP`. If the result has an
order, so have the trees, and the cursors are merged in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from dynq_cli.engine.comparisons import holds
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.in_order import InOrder
from dynq_cli.engine.kernels.fields import Flags, Words
from dynq_cli.engine.lookup import Lookup
from dynq_cli.engine.result_reader import OverflowedError, ResultReader
from dynq_cli.plan.program import Together

# The number of rows of the first cursor that are looked up in other members at a time.
STEP = 8192

Block = tuple[Words, Words]


class MultiTreeResult:
    """Reads one result from several trees of an engine."""

    def __init__(self, step: Together, reading: ResultReader, meaning: Evaluator) -> None:
        self.head = list(step.form.head)
        self.members = step.members
        self.is_set = step.form.semantics == "set"
        self.lookups = [Lookup(reading, m.tree, m.variables) for m in step.members]
        self.lacking = [Lookup(reading, m.tree, m.variables) for m in step.lacking]
        self.step = step
        self._reading = reading
        self._meaning = meaning

    @cached_property
    def _order(self) -> InOrder:
        """The order of the first member's tree, which is that of all."""
        return InOrder(self._reading, self.members[0].tree, (0, 0))

    @property
    def keeps_count(self) -> bool:
        """Whether terms give the count."""
        return bool(self.step.terms)

    def count(self) -> tuple[int, int]:
        """Return the number of rows, counting copies, and of distinct rows. Without terms, O(rows)."""
        if not self.keeps_count:
            return self._walked()
        rows = distinct = 0
        for term in self.step.terms:
            counted = self._reading.count(term.tree)
            rows += term.rows * counted[0]
            distinct += term.distinct * counted[1]
        return rows, distinct

    def _walked(self) -> tuple[int, int]:
        rows = distinct = 0
        for _, copies in self.blocks([], STEP):
            rows += sum(copies.tolist())
            distinct += len(copies)
        return rows, distinct

    def blocks(self, variables: Sequence[str], block: int) -> Iterator[Block]:
        """Yield distinct result rows as codes, one row per variable, and their multiplicities.

        Raises OverflowedError if a row has more than 2^63 - 1 copies.
        """
        wanted = [self.head.index(v) for v in variables]
        for codes, copies in self._distinct(block):
            for start in range(0, len(copies), block):
                yield codes[wanted, start : start + block], copies[start : start + block]

    def _distinct(self, block: int) -> Iterator[Block]:
        if self.step.form.order:
            return self._merged()
        return self._filtered(block) if len(self.members) == 1 else self._in_turn()

    def passes(self, codes: Words) -> Flags | None:
        """Return which rows satisfy the comparisons; None without comparisons. One row of codes per head variable."""
        kept = None
        for c in self.step.where:
            left, right = (self.step.form.variable(v) for v in (c.left, c.right))
            mine, theirs = (codes[self.head.index(v)] for v in (c.left, c.right))
            true = holds(c, left, right, mine, theirs, self._meaning)
            kept = true if kept is None else kept & true
        return kept

    def _kept(self, codes: Words) -> Flags | None:
        """Return which rows of members are rows of the result; None if all are."""
        kept = self.passes(codes)
        for lookup in self.lacking:
            absent: Flags = lookup.copies(codes) == 0
            kept = absent if kept is None else kept & absent
        return kept

    def copies(self, row: Mapping[str, int]) -> int:
        """Return the multiplicity of the row given by a code per head variable."""
        codes = np.array([[row[v]] for v in self.head], np.int64)
        kept = self._kept(codes)
        if kept is not None and not kept[0]:
            return 0
        many = sum(int(lookup.copies(codes)[0]) for lookup in self.lookups)
        return min(many, 1) if self.is_set else many

    def total(self, codes: Words) -> Words:
        """Return the multiplicity of rows in the result, over all members; at most 1 if it is a set."""
        return self.combined(codes, self.copies_by_tree(codes))

    def copies_by_tree(self, codes: Words) -> list[Words]:
        """Return the multiplicity of rows in each tree that is read: the members, then those whose rows it lacks."""
        return [lookup.copies(codes) for lookup in (*self.lookups, *self.lacking)]

    def combined(self, codes: Words, by_tree: Sequence[Words]) -> Words:
        """Return the multiplicity of rows in the result, given those in each tree that is read."""
        many = np.zeros(codes.shape[1], np.int64)
        for each in by_tree[: len(self.lookups)]:
            many = _sum(many, each)
        kept = self.passes(codes)
        for each in by_tree[len(self.lookups) :]:
            absent: Flags = each == 0
            kept = absent if kept is None else kept & absent
        if kept is not None:
            many = np.where(kept, many, 0)
        return np.minimum(many, 1) if self.is_set else many

    def _check(self) -> None:
        """Assert that the counts match the enumeration, and that it has each row once. O(result)."""
        found: Counter[tuple[int, ...]] = Counter()
        many = 0
        for codes, copies in self.blocks(self.head, STEP):
            found.update(map(tuple, codes.T.tolist()))
            many += sum(copies.tolist())
            assert (self.total(codes) == copies).all(), "a row is looked up as it is enumerated"
        assert set(found.values()) <= {1}, "a row is enumerated twice"
        assert self.count() == (many, len(found)), "terms add up to the rows that are enumerated"

    def _filtered(self, block: int) -> Iterator[Block]:
        """Yield the rows of the only member that no condition leaves out."""
        (member,) = self.members
        for codes, copies in self._reading.blocks(member.tree, member.variables, block):
            kept = self._kept(codes)
            assert kept is not None
            if kept.all():
                yield codes, copies
            elif kept.any():
                yield codes[:, kept], copies[kept]

    def _in_turn(self) -> Iterator[Block]:
        """Yield the rows of several members; the last member that has a row reports it."""
        cursors = [_Cursor(self._reading.blocks(m.tree, m.variables, STEP)) for m in self.members]
        for first, cursor in enumerate(cursors):
            while True:
                codes, copies = cursor.take(STEP)
                if not len(copies):
                    break
                owed = np.zeros(len(cursors), np.int64)
                yield from self._report(first, codes, copies, owed)
                for later in range(first + 1, len(cursors)):
                    if owed[later]:
                        yield from self._report(later, *cursors[later].take(int(owed[later])), owed)

    def in_order(self, codes: Words) -> Words:
        """Return what rows are compared by in the result's order, most significant first. O(rows)."""
        places = [self.head.index(o.variable) for o in self.step.form.order]
        return self._order.images(codes[places])

    def merge(self, several: Sequence[Words], is_last: Sequence[bool]) -> Words:
        """Merge ascending rows of members, one array each: all rows that no later row of a member is before.

        `is_last` says which arrays end their member. O(rows log rows).
        """
        codes = np.concatenate(several, axis=1)
        keys = self.in_order(codes)
        ranks = _ranks(keys)
        ends = np.cumsum([s.shape[1] for s in several])
        bounds = [
            int(ranks[end - 1]) for s, end, last in zip(several, ends, is_last, strict=True) if not last and s.size
        ]
        _, first = np.unique(ranks, return_index=True)
        kept = first[ranks[first] <= min(bounds)] if bounds else first
        merged: Words = codes[:, kept]
        return merged

    def _merged(self) -> Iterator[Block]:
        """Yield the rows of members in their order; a row of several members once."""
        cursors = [_Cursor(self._reading.blocks(m.tree, m.variables, STEP)) for m in self.members]
        while True:
            taken = [cursor.take(STEP)[0] for cursor in cursors]
            held = [codes for codes in taken if codes.size]
            if not held:
                return
            whole = [codes if codes.size else held[0][:, :0] for codes in taken]
            merged = self.merge(whole, [codes.shape[1] < STEP for codes in whole])
            last = _ranks(self.in_order(np.concatenate([merged[:, -1:], *whole], axis=1)))
            start = 1
            for cursor, codes in zip(cursors, whole, strict=True):
                done = int(np.count_nonzero(last[start : start + codes.shape[1]] <= last[0]))
                cursor.put_back(codes[:, done:])
                start += codes.shape[1]
            yield merged, self.total(merged)

    def _report(self, member: int, codes: Words, copies: Words, owed: Words) -> Iterator[Block]:
        """Yield the rows of a member that no later one has; count the others in `owed` of the first later one."""
        for later in range(member + 1, len(self.members)):
            absent = self.lookups[later].copies(codes) == 0
            owed[later] += len(copies) - np.count_nonzero(absent)
            if not absent.all():
                codes, copies = codes[:, absent], copies[absent]
        if len(copies):
            if not self.is_set:
                for earlier in self.lookups[:member]:
                    copies = _sum(copies, earlier.copies(codes))
            yield codes, copies


def _ranks(keys: Words) -> Words:
    """Return for each column the number of columns with lesser keys, so that equal ones have one number."""
    order = np.lexsort(keys[::-1])
    moved = keys[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (moved[:, 1:] != moved[:, :-1]).any(axis=0)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(is_new)
    return ranks


def _sum(some: Words, others: Words) -> Words:
    """Add multiplicities. OverflowedError if a sum exceeds 63 bits."""
    many: Words = some + others
    if (many < 0).any():
        raise OverflowedError
    return many


class _Cursor:
    """Takes any number of rows from a member's blocks."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._rest: Block | None = None

    def put_back(self, codes: Words) -> None:
        """Return rows that were taken last, to be taken again; their copies are not asked for again."""
        if codes.shape[1]:
            some = (codes, np.zeros(codes.shape[1], np.int64))
            if self._rest is not None:
                some = np.concatenate([codes, self._rest[0]], axis=1), np.concatenate([some[1], self._rest[1]])
            self._rest = some

    def take(self, many: int) -> Block:
        """Return the next rows; fewer than asked for only at the end."""
        taken: list[Block] = []
        while many:
            codes, copies = self._rest if self._rest is not None else next(self._blocks, (None, None))
            if codes is None or copies is None:
                break
            self._rest = (codes[:, many:], copies[many:]) if len(copies) > many else None
            taken.append((codes[:, :many], copies[:many]))
            many -= len(taken[-1][1])
        if not taken:
            return np.zeros((0, 0), np.int64), np.zeros(0, np.int64)
        return np.concatenate([c for c, _ in taken], axis=1), np.concatenate([n for _, n in taken])
