"""Sort pending updates: `notes` has a column per note, whose first three rows are group, image and row id.

The three rows behind them are scratch; later they hold partial sums.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Words

GROUP, IMAGE, ROW, PREFIX = range(4)
# Partial sums have up to four lanes.
NOTE_FIELDS = PREFIX + 4
_RUN = 16
# So many notes are sorted by digits: that many columns there are then, and sorting fewer costs little either way.
_MANY = 2048
_DIGIT, _WORD = 11, 63
_DIGITS = 1 << _DIGIT


@kernel(forceinline=True)
def _is_before(notes: Words, base: Int, a: Int, b: Int) -> Int:
    """Whether note a is before note b, both among those whose first row is `base`."""
    if notes[base + GROUP, a] != notes[base + GROUP, b]:
        return notes[base + GROUP, a] < notes[base + GROUP, b]
    if notes[base + IMAGE, a] != notes[base + IMAGE, b]:
        return notes[base + IMAGE, a] < notes[base + IMAGE, b]
    return notes[base + ROW, a] < notes[base + ROW, b]


@kernel
def _sort_run(notes: Words, start: Int, stop: Int) -> None:
    """Sort a short run by insertion."""
    for i in range(start + 1, stop):
        j = np.int64(i)
        while j > start and _is_before(notes, 0, j, j - 1):
            for k in range(PREFIX):
                notes[k, j], notes[k, j - 1] = notes[k, j - 1], notes[k, j]
            j -= 1


@kernel
def _merge(notes: Words, base: Int, start: Int, middle: Int, stop: Int) -> None:
    """Merge two neighbouring runs of the notes at `base` into the other three rows."""
    to = PREFIX - base
    a, b = start, middle
    for place in range(start, stop):
        if b >= stop or (a < middle and not _is_before(notes, base, b, a)):
            taken = a
            a += 1
        else:
            taken = b
            b += 1
        for k in range(PREFIX):
            notes[to + k, place] = notes[base + k, taken]


@kernel
def _bits(most: Int) -> Int:
    """Return how many bits a number needs."""
    many = np.int64(0)
    while most >> many > 0:
        many += 1
    return many


@kernel
def _sort_digits(notes: Words, n: Int, bits: Int) -> Int:
    """Sort numbers of so many bits in the row PREFIX, digit by digit; return the row in which they end up."""
    source = np.int64(PREFIX)
    starts = notes[PREFIX + 2]
    shift = np.int64(0)
    while shift < bits:
        given, sorted_ = notes[source], notes[2 * PREFIX + 1 - source]
        for digit in range(_DIGITS):
            starts[digit] = 0
        for i in range(n):
            starts[(given[i] >> shift) & (_DIGITS - 1)] += 1
        before = np.int64(0)
        for digit in range(_DIGITS):
            before, starts[digit] = before + starts[digit], before
        for i in range(n):
            digit = (given[i] >> shift) & (_DIGITS - 1)
            sorted_[starts[digit]] = given[i]
            starts[digit] += 1
        source = 2 * PREFIX + 1 - source
        shift += _DIGIT
    return source


@kernel
def _sort_packed(notes: Words, n: Int) -> Int:
    """Sort n notes as one number each if group, image and row fit one; return whether they do. O(n)."""
    first, last = notes[GROUP, 0], notes[GROUP, 0]
    least, most, row = notes[IMAGE, 0], notes[IMAGE, 0], np.int64(0)
    for i in range(n):
        first, last = min(first, notes[GROUP, i]), max(last, notes[GROUP, i])
        least, most = min(least, notes[IMAGE, i]), max(most, notes[IMAGE, i])
        row = max(row, notes[ROW, i])
    if most - least < 0:  # further apart than a number can say
        return False
    image_bits, row_bits = _bits(most - least), _bits(row)
    bits = _bits(last - first) + image_bits + row_bits
    if bits > _WORD:
        return False
    packed = notes[PREFIX]
    for i in range(n):
        packed[i] = ((notes[GROUP, i] - first) << image_bits | (notes[IMAGE, i] - least)) << row_bits | notes[ROW, i]
    packed = notes[_sort_digits(notes, n, bits)]
    for i in range(n):
        number = packed[i]
        notes[ROW, i] = number & ((1 << row_bits) - 1)
        number >>= row_bits
        notes[IMAGE, i] = (number & ((1 << image_bits) - 1)) + least
        notes[GROUP, i] = (number >> image_bits) + first
    return True


@kernel
def sort_notes(notes: Words, n: Int) -> None:
    """Sort the first n notes by group, image and row. O(n) if they are many and near each other, else O(n log n)."""
    if n >= _MANY and _sort_packed(notes, n):
        return
    for first in range(0, n, _RUN):
        _sort_run(notes, first, min(first + _RUN, n))
    base, run = np.int64(0), np.int64(_RUN)
    while run < n:
        start = np.int64(0)
        while start < n:  # a range whose step is a variable could raise, and the kernel could not be kept
            middle, stop = min(start + run, n), min(start + 2 * run, n)
            _merge(notes, base, start, middle, stop)
            start = stop
        base = PREFIX - base
        run *= 2
    if base:
        for k in range(PREFIX):
            for i in range(n):
                notes[k, i] = notes[PREFIX + k, i]
