"""Ids in the order of their values, and the sharing of label gaps among new ones.

The order is a list of blocks: `sequence[:n]` names them in order, `blocks[b, :lengths[b]]` are ids in
ascending order of their values. Blocks hold at least half of what they can, unless there is only one.
Along the order labels ascend strictly, within [-2^bits, 2^bits).

Where a gap is too small, the ids of the smallest aligned range of labels around it that is sparse enough
are spread evenly over that range. A range of 2^i labels is sparse enough with (2/T)^i ids, 1 < T < 2: wider
ranges must be sparser, so a range that was just spread has room for a constant share of its ids before one
inside it fills up, and a new id moves O(log n) others on average (Bender et al., Two Simplified Algorithms for
Maintaining Order in a List).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.intern import Bytes, Int32s, Int64s, word

# Places in the array of numbers that kernels update.
COUNT, BLOCKS, RELABELLED = 0, 1, 2


class Order(NamedTuple):
    """The arrays of the order; each may be longer than what is used of it."""

    labels: Int64s
    blocks: npt.NDArray[np.int32]
    lengths: Int32s
    sequence: Int32s
    numbers: Int64s


@kernel
def is_less(data: Bytes, offsets: Int64s, a: int, b: int) -> bool:
    """Whether value a comes before value b: byte by byte, a prefix before what it begins."""
    at, other = offsets[a], offsets[b]
    length_a, length_b = offsets[a + 1] - at, offsets[b + 1] - other
    shorter = min(length_a, length_b)
    i = 0
    while i + 8 <= shorter and word(data, at + i) == word(data, other + i):
        i += 8
    while i < shorter:
        if data[at + i] != data[other + i]:
            return bool(data[at + i] < data[other + i])
        i += 1
    return bool(length_a < length_b)


@kernel
def sort_by_value(data: Bytes, offsets: Int64s, ids: Int64s, spare: Int64s) -> None:
    """Merge sort; a batch that is in order already costs one comparison per id and level. `spare` is as long as ids."""
    many, width, is_spare = len(ids), 1, False
    while width < many:
        if is_spare:
            _merge_runs(data, offsets, spare, ids, many, width)
        else:
            _merge_runs(data, offsets, ids, spare, many, width)
        is_spare = not is_spare
        width *= 2
    if is_spare:
        for i in range(many):
            ids[i] = spare[i]


@kernel
def _merge_runs(data: Bytes, offsets: Int64s, source: Int64s, target: Int64s, many: int, width: int) -> None:
    """Sorted runs of `width` ids as sorted runs of twice that."""
    start = 0
    while start < many:
        middle, end = min(start + width, many), min(start + 2 * width, many)
        left, right = start, middle
        if middle < end and is_less(data, offsets, source[middle - 1], source[middle]):
            right = end
        for at in range(start, end):
            if right == end or (left < middle and is_less(data, offsets, source[left], source[right])):
                target[at] = source[left]
                left += 1
            else:
                target[at] = source[right]
                right += 1
        start = end


@kernel
def locate(data: Bytes, offsets: Int64s, order: Order, known: int, hint: int) -> tuple[int, int]:
    """Where a value belongs: the place of its block in the sequence, and the place in that block.

    It is not before block `hint`: looking there first makes a sorted batch cheap.
    """
    _, blocks, lengths, sequence, numbers = order
    count = numbers[BLOCKS]
    if numbers[COUNT] == 0:
        return 0, 0
    low, step = hint, 1
    while low + step - 1 < count:
        block = sequence[low + step - 1]
        if is_less(data, offsets, known, blocks[block, lengths[block] - 1]):
            break
        low += step
        step *= 2
    high = min(low + step - 1, count)
    while low < high:
        middle = (low + high) // 2
        block = sequence[middle]
        if is_less(data, offsets, known, blocks[block, lengths[block] - 1]):
            high = middle
        else:
            low = middle + 1
    if low == count:
        return count - 1, int(lengths[sequence[count - 1]])
    place, block = low, sequence[low]
    low, high = 0, lengths[block] - 1
    while low < high:
        middle = (low + high) // 2
        if is_less(data, offsets, known, blocks[block, middle]):
            high = middle
        else:
            low = middle + 1
    return place, low


@kernel(error_model="numpy")  # blocks have a size, and what can raise cannot be built
def insert_run(order: Order, place: int, at: int, ids: Int64s, start: int, end: int, spare: Int64s) -> tuple[int, int]:
    """Put ids before position `at` of a block, splitting it if need be; returns where the first one went.

    They are those from `start` to `end`; `spare` has room for them and a block.
    """
    _, blocks, lengths, sequence, numbers = order
    block, size, added = sequence[place], blocks.shape[1], end - start
    length = int(lengths[block])
    numbers[COUNT] += added
    if length + added <= size:
        for i in range(length - 1, at - 1, -1):
            blocks[block, i + added] = blocks[block, i]
        for i in range(added):
            blocks[block, at + i] = ids[start + i]
        lengths[block] = length + added
        return place, at
    total = length + added
    for i in range(at):
        spare[i] = blocks[block, i]
    for i in range(added):
        spare[at + i] = ids[start + i]
    for i in range(at, length):
        spare[added + i] = blocks[block, i]
    parts = -(-total // (size * 3 // 4))
    for i in range(numbers[BLOCKS] - 1, place, -1):
        sequence[i + parts - 1] = sequence[i]
    found_place, found_at, taken = place, at, 0
    for part in range(parts):
        if part > 0:
            block = numbers[BLOCKS]
            numbers[BLOCKS] += 1
            sequence[place + part] = block
        share = total // parts + (1 if part < total % parts else 0)
        for i in range(share):
            blocks[block, i] = spare[taken + i]
        lengths[block] = share
        if taken <= at < taken + share:
            found_place, found_at = place + part, at - taken
        taken += share
    return found_place, found_at


@kernel(error_model="numpy")
def spread(order: Order, place: int, at: int, added: int, anchor: int, capacity: Int64s) -> bool:
    """Label `added` new ids, the first of them at the position given, and what is around them.

    `anchor` is the lower end of their gap, `capacity[i]` how many ids a range of 2^i labels may hold. False if
    even all labels are too few.
    """
    labels, blocks, lengths, sequence, numbers = order
    left_place, left = place, at
    right_place, right = place, at + added
    while right > lengths[sequence[right_place]]:
        right -= lengths[sequence[right_place]]
        right_place += 1
    count = added
    lowest = -(1 << (len(capacity) - 2))
    for i in range(1, len(capacity)):
        base = lowest + ((anchor - lowest) >> i << i)
        while left > 0 or left_place > 0:
            if left == 0:
                left_place -= 1
                left = int(lengths[sequence[left_place]])
            if labels[blocks[sequence[left_place], left - 1]] < base:
                break
            left -= 1
            count += 1
        while right < lengths[sequence[right_place]] or right_place + 1 < numbers[BLOCKS]:
            if right == lengths[sequence[right_place]]:
                right_place += 1
                right = 0
            if labels[blocks[sequence[right_place], right]] >= base + (1 << i):
                break
            right += 1
            count += 1
        if count <= capacity[i]:
            step = (1 << i) // count
            label = base + step // 2
            for _ in range(count):
                if left == lengths[sequence[left_place]]:
                    left_place += 1
                    left = 0
                labels[blocks[sequence[left_place], left]] = label
                label += step
                left += 1
            numbers[RELABELLED] += count - added
            return True
    return False


@kernel(error_model="numpy")
def insert_sorted(
    data: Bytes, offsets: Int64s, order: Order, ids: Int64s, spare: Int64s, stride: int, capacity: Int64s
) -> bool:
    """Give sorted new ids their places and labels; all that fall into one gap share it evenly.

    `spare` has room for the ids and a block.
    """
    labels, blocks, lengths, sequence, _ = order
    limit = 1 << (len(capacity) - 2)
    start, place = 0, 0
    while start < len(ids):
        place, at = locate(data, offsets, order, ids[start], place)
        block = sequence[place]
        after = int(blocks[block, at]) if at < lengths[block] else -1
        before = -1
        if at > 0:
            before = int(blocks[block, at - 1])
        elif place > 0:
            before = int(blocks[sequence[place - 1], lengths[sequence[place - 1]] - 1])
        end = start + 1
        while end < len(ids) and (after < 0 or is_less(data, offsets, ids[end], after)):
            end += 1
        added = end - start
        width = stride * (added + 1)
        if before >= 0:
            low = labels[before]
            high = labels[after] if after >= 0 else min(low + width, limit)
        elif after >= 0:
            high = labels[after]
            low = max(high - width, -limit)
        else:
            low, high = max(-(width // 2), -limit), min(width - width // 2, limit)
        new_place, new_at = insert_run(order, place, at, ids, start, end, spare)
        step = (high - low) // (added + 1)
        if step > 0:
            for i in range(added):
                labels[ids[start + i]] = low + step * (i + 1)
        elif not spread(order, new_place, new_at, added, low, capacity):
            return False
        start = end
    return True
