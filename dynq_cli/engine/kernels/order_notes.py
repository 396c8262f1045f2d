"""Putting notes in order: `notes` has a column per note, whose first three rows say group, image and row id.

The three rows behind them are to work in; later they hold partial sums.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import Int, Words

GROUP, IMAGE, ROW, PREFIX = range(4)
# Partial sums have up to four lanes.
NOTE_FIELDS = PREFIX + 4
_RUN = 16


@bare(forceinline=True)
def _is_before(notes: Words, base: Int, a: Int, b: Int) -> Int:
    """Whether note a is before note b, both among those whose first row is `base`."""
    if notes[base + GROUP, a] != notes[base + GROUP, b]:
        return notes[base + GROUP, a] < notes[base + GROUP, b]
    if notes[base + IMAGE, a] != notes[base + IMAGE, b]:
        return notes[base + IMAGE, a] < notes[base + IMAGE, b]
    return notes[base + ROW, a] < notes[base + ROW, b]


@bare
def _sort_run(notes: Words, start: Int, stop: Int) -> None:
    """By insertion."""
    for i in range(start + 1, stop):
        j = np.int64(i)
        while j > start and _is_before(notes, 0, j, j - 1):
            for k in range(PREFIX):
                notes[k, j], notes[k, j - 1] = notes[k, j - 1], notes[k, j]
            j -= 1


@bare
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


@bare
def sort_notes(notes: Words, n: Int) -> None:
    """Order the first n notes by group, image and row. O(n log n)."""
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
