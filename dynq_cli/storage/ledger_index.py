"""Index of the ledger by a 64-bit key: sorted pages in immutable files.

    offsets(write_index(…, keys, offsets), key) = the offsets given with the key, the latest first

A page is 4 KB: its checksum, its number of keys, the keys in ascending order, then their offsets. The checksum is
seeded with the ledger's checksum where the index ends, and with the page's number. So a flipped bit, or a page of
another index, is detected. A lookup reads and checks O(log n) pages; opening reads nothing. Only writing needs numpy.

A log-structured merge: an index is merged with the one before it unless that is much larger. So there are O(log n)
indexes, and a key is written O(log n) times.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from dynq_cli.storage.layout import write_whole
from dynq_cli.storage.ledger_facts import IndexFacts, index_name
from dynq_cli.storage.manifest_facts import damaged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Page = memoryview[int]

PAGE = 4096
_WORDS = PAGE // 8
_KEYS = (_WORDS - 2) // 2


def _pages(facts: IndexFacts) -> int:
    return -(-facts.keys // _KEYS)


def write_index(directory: Path, number: int, until: int, checksum: int, keys: Words, offsets: Words) -> IndexFacts:
    """Write an index durably. `offsets` must be ascending. O(keys · log keys)."""
    import numpy as np

    facts = IndexFacts(number, until, checksum, len(keys))
    # Stable, so that offsets ascend within a key; nearly linear where the keys are a few sorted runs.
    order = np.argsort(keys, kind="stable")
    pages = np.zeros((_pages(facts), _WORDS), np.uint64)
    for part, values in ((slice(2, 2 + _KEYS), keys), (slice(2 + _KEYS, _WORDS), offsets)):
        padded = np.zeros(_pages(facts) * _KEYS, np.uint64)
        padded[: len(order)] = values[order]
        pages[:, part] = padded.reshape(-1, _KEYS)
    pages[:, 1] = _KEYS
    pages[-1:, 1] = len(order) - (_pages(facts) - 1) * _KEYS
    for place, page in enumerate(pages):
        page[0] = _checksum(facts, place, page[1:].tobytes())
    write_whole(directory / index_name(number), pages.tobytes())
    return facts


def read_index(directory: Path, facts: IndexFacts) -> tuple[Words, Words]:
    """Read and check all pages; return keys and offsets, ascending by key, then offset. O(keys)."""
    import numpy as np

    pages = [np.array(page, np.uint64) for page in OpenIndex(directory, facts).pages()]
    keys = [page[2 : 2 + int(page[1])] for page in pages]
    offsets = [page[2 + _KEYS : 2 + _KEYS + int(page[1])] for page in pages]
    none = np.zeros(0, np.uint64)
    return np.concatenate([none, *keys]), np.concatenate([none, *offsets])


class OpenIndex:
    """A memory-mapped index. DamagedError if a page's checksum does not match."""

    def __init__(self, directory: Path, facts: IndexFacts) -> None:
        self._path = directory / index_name(facts.number)
        self._facts = facts
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size != _pages(facts) * PAGE:
                    raise damaged(self._path, "has another length than was written")
                self._mapped = mmap.mmap(file.fileno(), _pages(facts) * PAGE, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise damaged(self._path, "is missing") from None
        self._checked: set[int] = set()

    def pages(self) -> Iterator[Page]:
        return map(self._page, range(_pages(self._facts)))

    def offsets(self, key: int) -> Iterator[int]:
        """Yield the offsets of a key, the latest first. O(log keys) pages."""
        # The last page whose first key is not greater holds the last offset; earlier pages may hold more.
        place = bisect_right(range(_pages(self._facts)), key, key=lambda p: self._page(p)[2]) - 1
        while place >= 0:
            page = self._page(place)
            stop = 2 + page[1]
            after = bisect_right(page, key, 2, stop)
            first = bisect_left(page, key, 2, after)
            yield from (page[i + _KEYS] for i in reversed(range(first, after)))
            if first > 2:
                return
            place -= 1

    def _page(self, place: int) -> Page:
        content = memoryview(self._mapped)[place * PAGE : (place + 1) * PAGE]
        page = content.cast("Q")
        if place not in self._checked:
            if page[0] != _checksum(self._facts, place, content[8:]):
                raise damaged(self._path, f"has a page at byte {place * PAGE} that is not what was written")
            self._checked.add(place)
        return page


def _checksum(facts: IndexFacts, place: int, content: bytes | memoryview) -> int:
    return xxhash.xxh3_64_intdigest(content, seed=(facts.checksum + place) % 2**64)
