"""The log of what was committed after a snapshot: one record per call of the engine, one or more per version.

    read_records(what a LogWriter appended) = the same records

A record is what the engine took: changes in codes, in their order, and the values that dictionaries learned
from them. Not the net of the changes: a row that comes and goes within a commit takes an id and hands it on, so
only the same changes in the same order give the same ids. A record's checksum covers that of the record before,
the first one's that of the snapshot, so the checksum of the last one, which the manifest has, vouches for all.
What lies beyond the length that the manifest gives was never committed: readers do not look at it, and the next
writer cuts it off.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from dynq_cli.engine.consolidate import NetDelta
from dynq_cli.engine.engine import Changes
from dynq_cli.storage.layout import FORMAT, write_at
from dynq_cli.storage.manifest import SnapshotFacts, WalFacts, damaged

Values = Mapping[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]
Bytes = NDArray[np.uint8]

# Format, length of the list of arrays, version, length of all that follows, checksum.
_HEADER = struct.Struct("<IIQQQ")
_ALIGN = 8
_PADDING = b" " * _ALIGN
# Bytes of a record that is written in one call.
_SMALL = 1 << 20


class Record(NamedTuple):
    """What the engine took for a version: changes by relation, and what dictionaries learned: bytes and offsets.

    With `ends` the changes, of one relation, are several commits, which end before those. `nets` has what changes
    amount to, for the relations where they do not say so by themselves.
    """

    version: int
    batch: Mapping[str, Changes]
    values: Values
    ends: NDArray[np.int64] | None = None
    nets: Mapping[str, NetDelta] = MappingProxyType({})


class LogWriter:
    """Puts records behind the committed ones. Nothing of them counts before a manifest has what `sync` returns.

    If anything fails the file is as long as before, or the next writer makes it so.
    """

    def __init__(self, path: Path, facts: WalFacts) -> None:
        self.facts = self._committed = facts
        self._file = os.open(path, os.O_RDWR)
        self._call(lambda: os.ftruncate(self._file, facts.length))

    def append(self, record: Record) -> None:
        """O(record) time; a large record is written array by array, in O(1) memory."""
        before = self.facts
        arrays = _arrays_of(record)
        listed = _padded(json.dumps([[*name, a.dtype.str, a.shape] for name, a in arrays.items()]).encode())
        length = len(listed) + sum(a.nbytes + -a.nbytes % _ALIGN for a in arrays.values())
        made = _checksum_of(before.checksum, len(listed), record.version, length)
        parts = [memoryview(listed)]
        for array in arrays.values():
            parts += [_bytes_of(array), memoryview(_PADDING[: -array.nbytes % _ALIGN])]
        for part in parts:
            made.update(part)
        header = _HEADER.pack(FORMAT, len(listed), record.version, length, made.intdigest())
        self._call(lambda: self._write(before.length, [memoryview(header), *parts], len(header) + length))
        many = sum(map(len, record.batch.values()))
        self.facts = WalFacts(before.length + len(header) + length, made.intdigest(), before.changes + many)

    def _write(self, place: int, parts: list[memoryview], length: int) -> None:
        if length <= _SMALL:
            write_at(self._file, place, b"".join(parts))
            return
        for part in parts:
            write_at(self._file, place, part)
            place += len(part)

    def sync(self) -> WalFacts:
        """Make all records durable; the facts to commit."""
        self._call(lambda: os.fsync(self._file))
        self._committed = self.facts
        self._close()
        return self.facts

    def abandon(self) -> None:
        """Take back what was appended. Nothing is left to be done where a call has failed."""
        if self._file >= 0:
            with suppress(OSError):
                os.ftruncate(self._file, self._committed.length)
            self._close()

    def _close(self) -> None:
        # Closed twice, the number could be that of another file by then.
        file, self._file = self._file, -1
        os.close(file)

    def _call(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError:
            self.abandon()
            raise


def no_records(snapshot: SnapshotFacts) -> WalFacts:
    """A log that starts at a snapshot."""
    return WalFacts(0, int(snapshot.checksum, 16), 0)


def read_records(path: Path, since: WalFacts, until: WalFacts) -> Iterator[Record]:
    """The records between two committed lengths; all are checked before one is given.

    FileNotFoundError, or DamagedError.
    """
    data = np.fromfile(path, np.uint8, until.length - since.length, offset=since.length)
    if len(data) != until.length - since.length:
        raise damaged(path, "is shorter than was written")
    found: list[tuple[int, int, Bytes]] = []
    checksum, place = since.checksum, 0
    while place < len(data):
        body = place + _HEADER.size
        if body > len(data):
            raise damaged(path, "ends within a record")
        written, listed, version, size, expected = _HEADER.unpack(data[place:body].tobytes())
        content = data[body : body + size]
        if len(content) != size or listed > size or written != FORMAT:
            raise damaged(path, f"has a record at byte {since.length + place} that does not fit")
        checksum = _checksum(checksum, listed, version, content.data)
        if checksum != expected:
            raise damaged(path, f"has a record at byte {since.length + place} that is not what was written")
        found.append((version, listed, content))
        place = body + size
    if checksum != until.checksum:
        raise damaged(path, "does not end with the record that was committed last")
    for version, listed, content in found:
        yield _record_of(version, json.loads(content[:listed].tobytes()), content[listed:])


def _checksum_of(before: int, listed: int, version: int, length: int) -> xxhash.xxh3_64:
    """The checksum of a record, still without its content."""
    return xxhash.xxh3_64(struct.pack("<IIQQ", FORMAT, listed, version, length), seed=before)


def _checksum(before: int, listed: int, version: int, content: memoryview) -> int:
    made = _checksum_of(before, listed, version, len(content))
    made.update(content)
    return made.intdigest()


def _padded(data: bytes) -> bytes:
    """Data that ends where an array may begin; spaces, which a JSON text may end with too."""
    return data + _PADDING[: -len(data) % _ALIGN]


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """The content of an array, row after row; of one that stands so in memory without a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _arrays_of(record: Record) -> dict[tuple[str, str, str], NDArray[Any]]:
    """The arrays of a record under (kind, relation or dictionary, part); what goes without saying is left out."""
    arrays: dict[tuple[str, str, str], NDArray[Any]] = {}
    if record.ends is not None:
        arrays["commits", "", "ends"] = record.ends
    for name, net in record.nets.items():
        arrays["net", name, "codes"], arrays["net", name, "delta"] = net
    for name, (data, offsets) in record.values.items():
        arrays["values", name, "data"], arrays["values", name, "offsets"] = data, offsets
    for name, changes in record.batch.items():
        arrays["batch", name, "codes"] = changes.codes
        if changes.ops.any():
            arrays["batch", name, "ops"] = changes.ops
        if (changes.counts != 1).any():
            arrays["batch", name, "counts"] = changes.counts
        # Relations without computed values or filters have one row there, whatever the number of changes.
        for part, array in (("computed", changes.computed), ("passes", changes.passes)):
            if len(array) == len(changes):
                arrays["batch", name, part] = array
    return arrays


def _record_of(version: int, listed: list[Any], data: Bytes) -> Record:
    found: dict[str, dict[str, dict[str, NDArray[Any]]]] = {"values": {}, "batch": {}, "commits": {}, "net": {}}
    place = 0
    for kind, name, part, dtype, shape in listed:
        # Arrays of their own, aligned and writable: kernels are compiled for such.
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = data[place : place + size]
        found[kind].setdefault(name, {})[part] = array
        place += size + -size % _ALIGN
    batch = {name: _changes_of(parts) for name, parts in found["batch"].items()}
    values = {name: (parts["data"], parts["offsets"]) for name, parts in found["values"].items()}
    nets = {name: NetDelta(parts["codes"], parts["delta"]) for name, parts in found["net"].items()}
    return Record(version, batch, values, found["commits"].get("", {}).get("ends"), nets)


def _changes_of(parts: Mapping[str, NDArray[Any]]) -> Changes:
    many = len(parts["codes"])
    usual: dict[str, NDArray[Any]] = {"ops": np.zeros(many, np.int8), "counts": np.ones(many, np.int64)}
    return Changes(**{**usual, **parts})
