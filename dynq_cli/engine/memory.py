"""Memory that grows in place: address space is taken once, pages come as they are touched.

An array that doubles by copying needs both copies at the moment of growth, and touches every page again.
A large private mapping without reservation costs nothing until it is written to; where the system refuses
one (limits on address space, strict accounting), smaller ones are tried, and growth copies. Huge pages are left to
the system: asking for them made it look for free ones at every fault, a quarter of the time of an update.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

from dynq_cli.engine.kernels.fields import Words

WORD = 8
# Of 128 TB that a process has; many engines may be waiting to be collected.
LARGEST = 1 << 37
# What is given back, in words, and how many of them are copied at a time.
PAGE = mmap.PAGESIZE // WORD
PIECE = (8 << 20) // mmap.PAGESIZE
# Below this giving pages back, to be zeroed when they are taken again, is not worth a call.
LARGE = (256 << 10) // WORD
# Address space that is only kept free would count as memory without it, and a process with two engines could not fork.
# Older Pythons have no name for it; the number holds on Linux for the machines that wheels of numba are made for.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


class Memory:
    """Zeroed words that `grow` extends, in place if there is room, else by copying."""

    def __init__(self, words: int, most: int = LARGEST) -> None:
        self._most = most
        self._mapping, self.words = _mapped(words * WORD, most)
        self._first = 0

    @classmethod
    def over(cls, words: Words) -> Memory:
        """Memory that is there already, such as a mapped file; when it has to grow it is copied, and given up."""
        made = cls.__new__(cls)
        made._most, made.words = LARGEST, words
        made._mapping, made._first = _mapping_of(words)
        return made

    def grow(self, words: int) -> None:
        """At least that many words; what is there stays. O(1) unless it has to copy, piece by piece."""
        had = len(self.words)
        if words <= had:
            return
        grown = Memory(max(words, had * 3 // 2), self._most)
        for start in range(0, had, PIECE * PAGE):
            stop = min(start + PIECE * PAGE, had)
            grown.words[start:stop] = self.words[start:stop]
            self.discard(start, stop)
        self._mapping, self.words, self._first = grown._mapping, grown.words, 0

    def move(self, start: int, to: int, words: int) -> None:
        """Copy a region to one that does not overlap it; a large one gives its pages back on the way."""
        done = 0
        while done < words:
            # Pieces end at the end of a page, so that none is left behind.
            stop = words if words < LARGE else min(words, ((start + done) // PAGE + PIECE) * PAGE - start)
            self.words[to + done : to + stop] = self.words[start + done : start + stop]
            if words >= LARGE:
                self.discard(start + done, start + stop)
            done = stop

    def discard(self, start: int, stop: int) -> None:
        """Words start … stop are not needed any more: their whole pages go back, and read as they were first."""
        first, last = -(-(self._first + start) // PAGE) * PAGE, (self._first + stop) // PAGE * PAGE
        if self._mapping is not None and last > first and hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED, first * WORD, (last - first) * WORD)


def scratch(rows: int, columns: int) -> Words:
    """Zeroes of which only those take memory that are written to.

    Numpy asks for huge pages for large arrays of its own, and a row that is begun then takes two megabytes.
    """
    _, words = _mapped(rows * columns * WORD, rows * columns * WORD)
    return words[: rows * columns].reshape(rows, columns)


def _mapping_of(words: Words) -> tuple[mmap.mmap | None, int]:
    """The mapping that an array is a part of, and its first word there."""
    owner: Any = words
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    if not isinstance(owner, mmap.mmap):
        return None, 0
    start = np.frombuffer(owner, np.uint8, 1).ctypes.data
    return owner, (words.ctypes.data - start) // WORD


def _mapped(least: int, most: int) -> tuple[mmap.mmap | None, Words]:
    """The largest mapping the system gives, and its words; plain memory if it gives none."""
    size = most
    while size >= max(least, mmap.PAGESIZE):
        try:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            mapping = mmap.mmap(-1, size, flags=flags)
        except (OSError, ValueError):
            size //= 4
            continue
        return mapping, np.frombuffer(mapping, np.int64)
    return None, np.zeros(least // WORD, np.int64)
