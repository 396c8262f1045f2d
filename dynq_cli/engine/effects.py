"""The effect of each change of a batch: it inserts, replaces or deletes a row, or does nothing.

    effects_of(engine, base, changes, ends) = an effect per change, computed before the batch is applied

In keyed relations each key is compared before and after each commit. Absent, then present: inserted. Present, then
absent: deleted. Present, and its row written again, even if identical: replaced. The last change of the commit that
writes or deletes the row has the effect; the others have none.

In relations without a key, every insert inserts and every delete deletes, even if they cancel.

O(changes). Only keys that occur several times are sorted; the base table is read only if the changes do not determine
whether a key was present. The effects of a batch that the engine refuses are meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.engine.consolidate import in_order
from dynq_cli.engine.engine import Engine
from dynq_cli.engine.kernels import base as kernels
from dynq_cli.engine.kernels import fields as f

NONE, INSERTED, REPLACED, DELETED = range(4)

Effects = NDArray[np.int8]
Mask = NDArray[np.bool_]

# By operation: INSERT, DELETE, UPSERT, DELETE_KEY, MAY_DELETE, MAY_DELETE_KEY.
_ALONE = np.array([INSERTED, DELETED, INSERTED, DELETED, DELETED, DELETED], np.int8)
_BRINGS = np.array([True, False, True, False, False, False])
_SETS = np.array([False, False, True, True, False, True])
_STEP = np.array([1, -1, 0, 0, -1, 0], np.int64)
# Clip larger multiplicities of keyed rows: they are refused anyway, and sums must not overflow.
_MOST = 1 << 20
# An odd multiplier spreads keys over the slots by their high bits; slots per key: few keys share one by chance.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SLOTS = 8


def effects_of(engine: Engine, base: BaseLayout, changes: Changes, ends: Codes | None = None) -> Effects:
    """Return the effect of each change of one commit, or of several with the exclusive `ends`, before applying them.

    In relations without a key, deletes that find no row count as deletes.
    """
    effects = _ALONE[changes.ops]
    if not base.relation.key or not changes.ops.any():
        return effects
    if changes.ops.max() < f.MAY_DELETE and not _BRINGS[changes.ops].any():
        return effects
    return _Keyed(engine, base, changes, ends).run(effects)


class _Keyed:
    def __init__(self, engine: Engine, base: BaseLayout, changes: Changes, ends: Codes | None) -> None:
        self._engine = engine
        self._base = base
        self._ops, self._codes = changes.ops, changes.codes
        self._counts = np.minimum(changes.counts, _MOST)
        self._keys = changes.codes[:, : len(base.relation.key)]
        self._ends = ends

    def run(self, effects: Effects) -> Effects:
        first = self._pairs()
        effects[first] = NONE
        effects[first + 1] = REPLACED
        # A pair is represented by its second change.
        is_first = np.zeros(len(effects), np.bool_)
        is_first[first] = True
        units = np.flatnonzero(~is_first)
        is_shared = may_repeat(self._keys[units])
        self._alone(effects, units[~is_shared], is_first)
        if is_shared.any():
            shared = np.zeros(len(effects), np.bool_)
            shared[units[is_shared]] = True
            shared[:-1] |= is_first[:-1] & shared[1:]
            self._in_sequence(effects, np.flatnonzero(shared))
        return effects

    def _pairs(self) -> Codes:
        """Return the changes that delete the row of the key that the next change of the commit inserts."""
        ops = self._ops
        gone = (ops[:-1] == f.DELETE) | (ops[:-1] == f.DELETE_KEY)
        first: Codes = np.flatnonzero(gone & (ops[1:] == f.INSERT))
        first = first[(self._keys[first] == self._keys[first + 1]).all(axis=1)]
        if self._ends is not None and len(first):
            first = first[self._commits(first) == self._commits(first + 1)]
        return first

    def _commits(self, at: Codes) -> Codes:
        """Return the number of the commit of each change."""
        if self._ends is None:
            return np.zeros(len(at), np.int64)
        numbers: Codes = np.searchsorted(self._ends, at, side="right")
        return numbers

    def _alone(self, effects: Effects, units: Codes, is_first: Mask) -> None:
        """Set the effects of changes, and pairs, whose key no other change has."""
        ops = self._ops[units]
        is_pair = np.zeros(len(units), np.bool_)
        is_pair[units > 0] = is_first[units[units > 0] - 1]
        # A pair of two equal rows is accepted whether the row is present or not.
        pairs = units[is_pair]
        pairs = pairs[(self._codes[pairs] == self._codes[pairs - 1]).all(axis=1)]
        effects[pairs] = np.where(self._rows(pairs) >= 0, REPLACED, NONE)
        upserts = units[ops == f.UPSERT]
        effects[upserts] = np.where(self._rows(upserts) >= 0, REPLACED, INSERTED)
        by_key = units[ops == f.MAY_DELETE_KEY]
        effects[by_key] = np.where(self._rows(by_key) >= 0, DELETED, NONE)
        whole = units[ops == f.MAY_DELETE]
        rows = self._rows(whole)
        there = rows >= 0
        there[there] = (self._stored(rows[there]) == self._codes[whole[there]]).all(axis=1)
        effects[whole] = np.where(there, DELETED, NONE)

    def _rows(self, at: Codes) -> Codes:
        """Return the base rows with the keys of some changes, -1 if there is none."""
        rows = np.empty(len(at), np.int64)
        if len(at):
            arena = self._engine.arena
            kernels.look_up(arena.store, self._base.table, self._codes[at], rows)
        return rows

    def _stored(self, rows: Codes) -> Codes:
        """Return the codes of base rows."""
        arena, table = self._engine.arena, self._base.table
        places = arena.tables["rows"][table] + rows * arena.tables["stride"][table]
        stored: Codes = arena.words[places[:, None] + np.arange(self._codes.shape[1])]
        return stored

    def _in_sequence(self, effects: Effects, at: Codes) -> None:
        """Set the effects of changes that may share their key; `at` has all changes of each key, in order."""
        effects[at] = NONE
        order, starts = in_order(self._keys[at])
        at = at[order]  # the order is stable: changes of a key stay in their order
        rows = self._rows(at[starts])
        if (self._ops[at] == f.MAY_DELETE).any() or self._meets_rows(at, rows, starts):
            self._step_by_step(effects, at, np.flatnonzero(starts), rows)
            return
        present = np.repeat(rows >= 0, np.diff(np.append(np.flatnonzero(starts), len(at))))
        total = self._totals(at, starts, present)
        commits = self._commits(at)
        begins = starts.copy()
        begins[1:] |= commits[1:] != commits[:-1]
        begin = np.flatnonzero(begins)
        last = np.append(begin[1:], len(at)) - 1
        after = total[last] > 0
        before = np.where(starts[begin], present[begin], np.append(False, after[:-1]))
        numbers = np.arange(len(at))
        brought = np.maximum.reduceat(np.where(_BRINGS[self._ops[at]], numbers, -1), begin)
        taken = np.maximum.reduceat(np.where(_BRINGS[self._ops[at]], -1, numbers), begin)
        is_brought = after & (brought >= 0)
        effects[at[brought[is_brought & ~before]]] = INSERTED
        effects[at[brought[is_brought & before]]] = REPLACED
        gone = before & ~after & (taken >= 0)
        effects[at[taken[gone]]] = DELETED

    def _meets_rows(self, at: Codes, rows: Codes, starts: Mask) -> bool:
        """Whether a delete by key may meet the very row that it holds, which it deletes alone."""
        ops = self._ops[at]
        gone = at[_SETS[ops] & ~_BRINGS[ops]]
        if not len(gone) or self._keys.shape[1] == self._codes.shape[1]:
            return False
        held = rows[(np.cumsum(starts) - 1)[_SETS[ops] & ~_BRINGS[ops]]]
        if (self._stored(held[held >= 0]) == self._codes[gone[held >= 0]]).all(axis=1).any():
            return True
        brought = {row.tobytes() for row in self._codes[at[_BRINGS[ops]]]}
        return any(row.tobytes() in brought for row in self._codes[gone])

    def _totals(self, at: Codes, starts: Mask, present: Mask) -> Codes:
        """Return the number of rows of the key after each change. An upsert leaves one, a delete by key none."""
        ops = self._ops[at]
        step = _STEP[ops] * self._counts[at]
        sums = np.cumsum(step)
        sets = _SETS[ops]
        offset = np.where(sets, (ops == f.UPSERT) - sums, present - (sums - step))
        anchor = np.maximum.accumulate(np.where(sets | starts, np.arange(len(at)), 0))
        totals: Codes = offset[anchor] + sums
        return totals

    def _step_by_step(self, effects: Effects, at: Codes, begin: Codes, rows: Codes) -> None:
        """Like `_in_sequence`, if deletes of whole rows may find no row: that depends on the row present."""
        for start, stop, row in zip(begin, np.append(begin[1:], len(at)), rows, strict=True):
            there = {} if row < 0 else {tuple(self._stored(np.array([row]))[0].tolist()): 1}
            for commit in self._split(at[start:stop]):
                before = bool(there)
                there = self._after(there, commit)
                brings = commit[_BRINGS[self._ops[commit]]]
                if there and len(brings):
                    effects[brings[-1]] = REPLACED if before else INSERTED
                elif before and not there:
                    effects[commit[~_BRINGS[self._ops[commit]]][-1]] = DELETED

    def _split(self, at: Codes) -> Iterator[Codes]:
        yield from np.split(at, np.flatnonzero(np.diff(self._commits(at))) + 1)

    def _after(self, there: dict[tuple[int, ...], int], commit: Codes) -> dict[tuple[int, ...], int]:
        """Return the rows of a key after a commit, as the engine resolves it."""
        many = dict(there)
        for change in commit:
            row, op = tuple(self._codes[change].tolist()), self._ops[change]
            if _SETS[op] and not _BRINGS[op] and many.get(row, 0) > 0:
                many[row] -= 1
            elif _SETS[op]:
                many = {other: min(copies, 0) for other, copies in many.items()}
            if _BRINGS[op] or op in (f.DELETE, f.MAY_DELETE):
                copies = int(self._counts[change])
                many[row] = many.get(row, 0) + (copies if _BRINGS[op] else -copies)
        return {row: copies for row, copies in many.items() if copies > 0}


def may_repeat(keys: Codes) -> Mask:
    """Return the keys that may occur more than once: all that do, and few others. O(keys), without sorting.

    >>> may_repeat(np.array([[1], [2], [3], [2]])).tolist()
    [False, True, False, True]
    """
    many = len(keys)
    if many < 2:
        return np.zeros(many, np.bool_)
    if keys.shape[1] == 1 and (keys[1:, 0] > keys[:-1, 0]).all():
        return np.zeros(many, np.bool_)
    bits = max((_SLOTS * many - 1).bit_length(), 1)
    mixed = np.zeros(many, np.uint64)
    for column in keys.T:
        mixed = (mixed ^ column.view(np.uint64)) * _SPREAD
        mixed ^= mixed >> np.uint64(32)
    slots = (mixed * _SPREAD >> np.uint64(64 - bits)).astype(np.int64)
    holder = np.empty(1 << bits, np.int32)
    numbers = np.arange(many, dtype=np.int32)
    holder[slots] = numbers
    is_met = np.zeros(1 << bits, np.bool_)
    is_met[slots[holder[slots] != numbers]] = True
    found: Mask = is_met[slots]
    return found
