"""Memory that grows in place: reserve address space once; the system adds pages when they are touched.

An array that doubles by copying needs both copies while it grows, and touches every page again. A large private mapping
without reservation costs nothing until it is written to. If the system refuses one (limits on address space, strict
accounting), smaller ones are tried, and growth copies. Do not request huge pages: the system then searches for free
ones at every fault, which took a quarter of the time of an update.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from dynq_cli.engine.kernels.fields import Words

WORD = 8
# A small part of the 128 TB of a process: many engines may wait for garbage collection.
LARGEST = 1 << 37
# The unit in which memory is returned to the system, in words, and the number of units copied at a time.
PAGE = mmap.PAGESIZE // WORD
PIECE = (8 << 20) // mmap.PAGESIZE
# Smaller regions are not returned: the call, and zeroing the pages later, cost more than they save.
LARGE = (256 << 10) // WORD
# A change copies its pages of a mapped file one by one, which takes as long as copying 16 KB at once. When a process
# has spent a quarter of the time that copying the whole file takes, it copies the whole file.
BYTES_PER_CHANGE = 64 * 1024
# Linux 5.14; the module mmap has no name for it.
_POPULATE_WRITE = 23
# Without this flag, unused address space counts as memory, and a process with two engines could not fork. Older Pythons
# do not define it; the number is valid on Linux for all platforms with numba wheels.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


class Memory:
    """Zeroed words that `grow` extends, in place if there is room, else by copying."""

    def __init__(self, words: int, most: int = LARGEST) -> None:
        self._most = most
        self._mapping, self.words = _mapped(words * WORD, most)
        self._first = 0
        self.is_private, self.applied = True, 0

    @classmethod
    def over(cls, words: Words) -> Memory:
        """Wrap existing memory, such as a file mapped copy-on-write; to grow, it is copied and released."""
        made = cls.__new__(cls)
        made._most, made.words = LARGEST, words
        made._mapping, made._first = _mapping_of(words)
        made.is_private, made.applied = made._mapping is None, 0
        return made

    def count_applied(self, changes: int) -> None:
        """Count changes that this process applied. After enough of them, copy all pages of a mapped file at once.

        If most pages are written, it takes a fifth of the time: measured on 370 MB, 0.15 s once, and then 0.5 ms
        instead of 7 ms for a thousand changes. If the system does not support it, pages are still copied one by one.
        """
        self.applied += changes
        if self.is_private or self._mapping is None or self.applied * BYTES_PER_CHANGE <= len(self._mapping):
            return
        if sys.platform == "linux":
            with suppress(OSError):
                self._mapping.madvise(_POPULATE_WRITE)
        self.is_private = True

    def grow(self, words: int) -> None:
        """Grow to at least that many words, keeping the contents. O(1) unless it must copy."""
        had = len(self.words)
        if words <= had:
            return
        grown = Memory(max(words, had * 3 // 2), self._most)
        for start in range(0, had, PIECE * PAGE):
            stop = min(start + PIECE * PAGE, had)
            grown.words[start:stop] = self.words[start:stop]
            self.discard(start, stop)
        self._mapping, self.words, self._first, self.is_private = grown._mapping, grown.words, 0, True

    def move(self, start: int, to: int, words: int) -> None:
        """Copy a region to one that does not overlap it; release the pages of a large one on the way."""
        done = 0
        while done < words:
            # Pieces end at page boundaries, so that every page is released.
            stop = words if words < LARGE else min(words, ((start + done) // PAGE + PIECE) * PAGE - start)
            self.words[to + done : to + stop] = self.words[start + done : start + stop]
            if words >= LARGE:
                self.discard(start + done, start + stop)
            done = stop

    def discard(self, start: int, stop: int) -> None:
        """Release the whole pages between words `start` and `stop`; they then read as they did at first."""
        first, last = -(-(self._first + start) // PAGE) * PAGE, (self._first + stop) // PAGE * PAGE
        if self._mapping is not None and last > first and hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED, first * WORD, (last - first) * WORD)


def scratch(rows: int, columns: int) -> Words:
    """Return zeros that take memory only where they are written to.

    Numpy requests huge pages for large arrays; then the first write to a row takes two megabytes.
    """
    _, words = _mapped(rows * columns * WORD, rows * columns * WORD)
    return words[: rows * columns].reshape(rows, columns)


def _mapping_of(words: Words) -> tuple[mmap.mmap | None, int]:
    """Return the mapping that contains an array, and the array's first word in it."""
    owner: Any = words
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    if not isinstance(owner, mmap.mmap):
        return None, 0
    start = np.frombuffer(owner, np.uint8, 1).ctypes.data
    return owner, (words.ctypes.data - start) // WORD


def _mapped(least: int, most: int) -> tuple[mmap.mmap | None, Words]:
    """Return the largest mapping that the system grants, and its words; plain memory if it grants none."""
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
