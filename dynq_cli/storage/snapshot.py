"""Snapshots: the arrays of an engine in one file, page-aligned, memory-mapped when opened.

    open_snapshot(path, write_snapshot(path, parts)).arrays = the arrays that the parts describe

A snapshot is written block by block, not through a mapping. Mapped pages count as memory of the process, so a mapping
would hold the state twice; and syncing a mapping blocks every Python thread.

The mapping is copy-on-write: changes stay in the process, and the first write to a page copies it. That suits a
process that changes little. Opening checks the checksum of the whole file, so a flipped bit is never returned as data.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from dynq_cli.atomic import TEMPORARY, sync_directory
from dynq_cli.engine.arena_snapshot import Arrays, Part
from dynq_cli.phases import advance, phase
from dynq_cli.storage.layout import ENGINE, write_at
from dynq_cli.storage.manifest import ArrayPlace, SnapshotFacts, damaged

_PAGE = 4096
_PIECE = 64 << 20
_BLOCK = 1 << 20


def write_snapshot(path: Path, parts: Mapping[str, Part], version: int) -> SnapshotFacts:
    """Write a snapshot durably. O(bytes) time, O(1) memory; blocks of zeros become holes in the file."""
    places, length = _places(parts)
    temporary = path.with_name(path.name + TEMPORARY)
    with temporary.open("wb", buffering=0) as file:
        with phase("writing the snapshot", "bytes", length):
            blocks = _Blocks(file.fileno())
            for name, part in parts.items():
                for place, items in part.pieces():
                    blocks.add(places[name].offset + place * part.dtype.itemsize, items.view(np.uint8))
            checksum = blocks.end(length)
        with phase(f"syncing the snapshot of {length:,} bytes to disk"):
            file.truncate(length)
            os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)
    return SnapshotFacts(version, length, checksum, places, ENGINE)


class _Blocks:
    """Write a file sequentially, block by block, and compute its checksum."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._block = np.zeros(_BLOCK, np.uint8)
        self._start = self._filled = 0
        self._made = xxhash.xxh3_64()

    def add(self, place: int, data: NDArray[np.uint8]) -> None:
        """Add bytes at an offset, at or after the end of the bytes added before; fill the gap with zeros."""
        self._skip_to(place)
        done = 0
        while done < len(data):
            many = min(len(data) - done, _BLOCK - self._filled)
            self._block[self._filled : self._filled + many] = data[done : done + many]
            self._move(many)
            done += many

    def end(self, length: int) -> str:
        """Fill up to `length` with zeros, write the last block, and return the checksum."""
        self._skip_to(length)
        self._write()
        return self._made.hexdigest()

    def _skip_to(self, place: int) -> None:
        while (left := place - self._start - self._filled) > 0:
            self._move(min(left, _BLOCK - self._filled))

    def _move(self, many: int) -> None:
        self._filled += many
        if self._filled == _BLOCK:
            self._write()

    def _write(self) -> None:
        content = self._block[: self._filled]
        self._made.update(content.data)
        if content.any():
            write_at(self._file, self._start, content.data)
            content[:] = 0
        advance(len(content))
        self._start, self._filled = self._start + self._filled, 0


def open_snapshot(path: Path, facts: SnapshotFacts) -> Arrays:
    """Check and map a snapshot; writing to its arrays does not change the file. O(bytes) at the speed of a checksum.

    FileNotFoundError or DamagedError.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != facts.length:
            raise damaged(path, "has another length than was written")
        mapped = mmap.mmap(file.fileno(), facts.length, access=mmap.ACCESS_COPY)
    with phase("reading the snapshot", "bytes", facts.length):
        if _checksum(mapped) != facts.checksum:
            raise damaged(path, "is not what was written")
    return {name: _array(mapped, place) for name, place in facts.arrays.items()}


def _checksum(mapped: mmap.mmap) -> str:
    """Return the same as `checksum_of` all bytes, computed piece by piece to report progress."""
    made = xxhash.xxh3_64()
    with memoryview(mapped) as content:
        for start in range(0, len(content), _PIECE):
            with content[start : start + _PIECE] as piece:
                made.update(piece)
                advance(len(piece))
    return made.hexdigest()


def _places(parts: Mapping[str, Part]) -> tuple[dict[str, ArrayPlace], int]:
    places, offset = {}, 0
    for name, part in parts.items():
        places[name] = ArrayPlace(part.dtype.str, part.shape, offset)
        size = part.dtype.itemsize * int(np.prod(part.shape))
        offset += max(1, -(-size // _PAGE)) * _PAGE
    return places, offset


def _array(mapped: mmap.mmap, place: ArrayPlace) -> NDArray[Any]:
    many = int(np.prod(place.shape))
    return np.frombuffer(mapped, np.dtype(place.dtype), many, place.offset).reshape(place.shape)
