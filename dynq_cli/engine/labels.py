"""Order labels: an int64 per id of a dictionary, in the order of the values.

    labels[a] < labels[b]  ⟺  value a < value b      (byte by byte)

Order-statistic trees store ids and compare labels. A new value changes other labels only if a gap is exhausted, and
never the order of two ids, so trees stay valid. A batch of m new values among N costs O(m log N) comparisons and
changes O(log N) labels per value on average; values at either end change none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dynq_cli.engine.kernels.intern import Flat, Int64s
from dynq_cli.engine.kernels.labels import BLOCKS, COUNT, RELABELLED, Order, insert_sorted, is_less, sort_by_value

STRIDE = 2**20
BITS = 61
BLOCK_SIZE = 512
_SPARSITY = 1.4


class Values(Protocol):
    """The values that are labelled, by id: those of a dictionary."""

    def __len__(self) -> int: ...

    @property
    def flat(self) -> Flat: ...


class Labels:
    """The labels of one dictionary, whose latest values may not be labelled yet.

    `stride` is the distance between labels at the ends; labels are in [-2^bits, 2^bits); `block_size` (even, at least
    4) is the maximum number of ids in a block of the order.
    """

    def __init__(self, *, stride: int = STRIDE, bits: int = BITS, block_size: int = BLOCK_SIZE) -> None:
        self._stride = stride
        # A range of 2^i labels may hold (2/T)^i ids; the whole range as many ids as labels.
        sparse = [int((2 / _SPARSITY) ** i) for i in range(bits + 1)]
        self._capacity = np.array([*sparse, 2 ** (bits + 1)], np.int64)
        self._order = _in_blocks(np.empty(0, np.int64), block_size)

    def __len__(self) -> int:
        return int(self._order.numbers[COUNT])

    @property
    def labels(self) -> Int64s:
        """The label of each id; valid until the next `update`, which may replace the array."""
        return self._order.labels[: len(self)]

    @property
    def memory(self) -> Int64s:
        """The array of all labels, with its free room."""
        return self._order.labels

    def move_to(self, memory: Int64s) -> None:
        """Move the labels to a copy of `memory`."""
        self._order = self._order._replace(labels=memory)

    @property
    def relabelled(self) -> int:
        """The number of changes of existing labels so far."""
        return int(self._order.numbers[RELABELLED])

    def update(self, dictionary: Values) -> None:
        """Label the values added to the dictionary since the last call. Amortised O(m log N) for m new among N."""
        count, total = len(self), len(dictionary)
        if count == total:
            return
        self._reserve(total)
        ids = np.arange(count, total, dtype=np.int64)
        spare = np.empty(len(ids) + self._order.blocks.shape[1], np.int64)
        data, offsets = dictionary.flat.data, dictionary.flat.offsets
        sort_by_value(data, offsets, ids, spare)
        if not insert_sorted(data, offsets, self._order, ids, spare, self._stride, self._capacity):
            raise OverflowError(f"there are not enough labels for {total} values")

    def order(self) -> Int64s:
        """Return all ids in the order of their values. O(N)."""
        _, blocks, lengths, sequence, numbers = self._order
        parts = [blocks[block, : lengths[block]] for block in sequence[: numbers[BLOCKS]]]
        return np.concatenate(parts).astype(np.int64)

    def floor(self, dictionary: Values, value: bytes) -> int:
        """Return the id of the greatest value that is not greater than `value`, -1 if all are greater. O(log N)."""
        data, offsets = dictionary.flat.data, dictionary.flat.offsets
        _, blocks, lengths, sequence, numbers = self._order

        def is_greater(known: int) -> bool:
            return data[offsets[known] : offsets[known + 1]].tobytes() > value

        if len(self) == 0:
            return -1
        place = bisect_left(range(numbers[BLOCKS]), True, key=lambda i: is_greater(blocks[sequence[i], 0])) - 1
        if place < 0:
            return -1
        block = blocks[sequence[place], : lengths[sequence[place]]]
        return int(block[bisect_left(block, True, key=is_greater) - 1])

    def truncate(self, count: int) -> None:
        """Remove the ids from `count` on. O(N)."""
        if count < len(self):
            order = self.order()
            kept = _in_blocks(order[order < count], self._order.blocks.shape[1])
            kept.labels[:count] = self._order.labels[:count]
            kept.numbers[RELABELLED] = self.relabelled
            self._order = kept

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to store, with a quarter of free room."""
        self._reserve(len(self) + len(self) // 4)
        return self._order._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], *, stride: int = STRIDE, bits: int = BITS) -> Labels:
        """Build the labels from their arrays; read-only ones are copied."""
        made = cls(stride=stride, bits=bits)
        made._order = Order(*(np.require(np.asarray(arrays[name]), None, ["C", "A", "W"]) for name in Order._fields))
        return made

    def _reserve(self, count: int) -> None:
        """Make room for `count` ids; blocks are at least half full."""
        labels, blocks, lengths, sequence, numbers = self._order
        if count > len(labels):
            labels = _with_room(labels, max(count, len(labels) * 3 // 2))
        needed = _most_blocks(count, blocks.shape[1])
        if needed > len(blocks):
            room = max(needed, len(blocks) * 3 // 2)
            blocks, lengths, sequence = (_with_room(array, room) for array in (blocks, lengths, sequence))
        self._order = Order(labels, blocks, lengths, sequence, numbers)

    def _check(self, dictionary: Values) -> None:
        """Assert every invariant; O(N + bytes)."""
        labels, blocks, lengths, sequence, numbers = self._order
        count, used = len(self), int(numbers[BLOCKS])
        assert sorted(sequence[:used]) == list(range(used)), sequence[:used]
        size = blocks.shape[1]
        assert used == 1 or (lengths[:used] * 2 >= size).all(), lengths[:used]
        assert (lengths[:used] <= size).all() and lengths[:used].sum() == count, (lengths[:used], count)
        order = self.order()
        assert np.array_equal(np.sort(order), np.arange(count)), "every id has one place"
        data, offsets = dictionary.flat.data, dictionary.flat.offsets
        assert all(is_less(data, offsets, a, b) for a, b in pairwise(order))
        assert (np.diff(labels[order]) > 0).all(), labels[order]
        limit = int(self._capacity[-1]) // 2
        assert ((labels[:count] >= -limit) & (labels[:count] < limit)).all(), labels[:count]


def _most_blocks(count: int, size: int) -> int:
    return 2 * count // size + 1


def _in_blocks(order: Int64s, size: int) -> Order:
    """Put an order into blocks filled to three quarters; the caller sets the labels."""
    used = max(1, -(-len(order) // (size * 3 // 4)))
    lengths = np.full(used, len(order) // used, np.int32)
    lengths[: len(order) % used] += 1
    blocks = np.zeros((used, size), np.int32)
    for block, ids in enumerate(np.split(order, np.cumsum(lengths)[:-1])):
        blocks[block, : len(ids)] = ids
    numbers = np.array([len(order), used, 0], np.int64)
    return Order(np.zeros(len(order), np.int64), blocks, lengths, np.arange(used, dtype=np.int32), numbers)


def _with_room(old: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    new = np.zeros((room, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new
