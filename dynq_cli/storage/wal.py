"""The write-ahead log: changes committed after a snapshot, a record per call of the engine, one or more per version.

A record has the changes in codes, in their order, and the values that they added to dictionaries. It does not have the
net change: a row that is inserted and deleted within a commit takes an id and frees it, so only the same changes in the
same order give the same ids.

The checksum of a record covers the checksum of the record before it; the first one covers the snapshot's. So the last
checksum, which the manifest has, covers the whole log. Bytes beyond the length in the manifest were never committed:
readers ignore them, the next writer truncates them.
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
from dynq_cli.engine.mixed_commits import Ends
from dynq_cli.storage.layout import FORMAT, write_at
from dynq_cli.storage.manifest import SnapshotFacts, WalFacts, damaged

Values = Mapping[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]
Bytes = NDArray[np.uint8]

# Format, length of the list of arrays, version, length of the content after the header, checksum.
_HEADER = struct.Struct("<IIQQQ")
_ALIGN = 8
_PADDING = b" " * _ALIGN
# A record up to this size, in bytes, is written in one call.
_SMALL = 1 << 20


class Record(NamedTuple):
    """One call of the engine: changes by relation, and the bytes and offsets of values added to dictionaries.

    With `ends`, the changes are several commits: by relation, each number is the end of a commit, exclusive. `nets`
    has the net change of relations whose changes include upserts, as it then depends on the rows before.
    """

    version: int
    batch: Mapping[str, Changes]
    values: Values
    ends: Ends | None = None
    nets: Mapping[str, NetDelta] = MappingProxyType({})


class LogWriter:
    """Append records to the log. They are committed when a manifest has the facts that `sync` returns.

    On failure the file is truncated to its old length, at the latest by the next writer.
    """

    def __init__(self, path: Path, facts: WalFacts) -> None:
        self.facts = self._committed = facts
        self._file = os.open(path, os.O_RDWR)
        self._call(lambda: os.ftruncate(self._file, facts.length))

    def append(self, record: Record) -> None:
        """Append a record. O(record) time; a large record is written array by array, in O(1) memory."""
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
        """Make all records durable; return the facts to commit."""
        self._call(lambda: os.fsync(self._file))
        self._committed = self.facts
        self._close()
        return self.facts

    def abandon(self) -> None:
        """Truncate the records that were not synced. Does nothing after a failed call, which has done so."""
        if self._file >= 0:
            with suppress(OSError):
                os.ftruncate(self._file, self._committed.length)
            self._close()

    def _close(self) -> None:
        # Never close twice: the descriptor may belong to another file by then.
        file, self._file = self._file, -1
        os.close(file)

    def _call(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError:
            self.abandon()
            raise


def no_records(snapshot: SnapshotFacts) -> WalFacts:
    """Return the facts of the empty log after a snapshot."""
    return WalFacts(0, int(snapshot.checksum, 16), 0)


def read_records(path: Path, since: WalFacts, until: WalFacts) -> Iterator[Record]:
    """Yield the records between two committed lengths, after checking all of them.

    FileNotFoundError if the log is missing, DamagedError if it is damaged.
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
    """Start the checksum of a record; the caller adds the content."""
    return xxhash.xxh3_64(struct.pack("<IIQQ", FORMAT, listed, version, length), seed=before)


def _checksum(before: int, listed: int, version: int, content: memoryview) -> int:
    made = _checksum_of(before, listed, version, len(content))
    made.update(content)
    return made.intdigest()


def _padded(data: bytes) -> bytes:
    """Pad to the alignment of arrays with spaces, which are valid at the end of JSON."""
    return data + _PADDING[: -len(data) % _ALIGN]


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in C order, without a copy if it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _arrays_of(record: Record) -> dict[tuple[str, str, str], NDArray[Any]]:
    """Return the arrays of a record by (kind, relation or dictionary, part); omit arrays of default values."""
    arrays: dict[tuple[str, str, str], NDArray[Any]] = {}
    if record.ends is not None and len(record.ends) == 1:
        (arrays["commits", "", "ends"],) = record.ends.values()
    elif record.ends is not None:
        for name, ends in record.ends.items():
            arrays["mixed", name, "ends"] = ends.astype(np.int32) if len(ends) and ends[-1] < 1 << 31 else ends
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
        # These arrays have one row if the relation has no computed values or filters: then omit them.
        for part, array in (("computed", changes.computed), ("passes", changes.passes)):
            if len(array) == len(changes):
                arrays["batch", name, part] = array
    return arrays


def _record_of(version: int, listed: list[Any], data: Bytes) -> Record:
    kinds = ("values", "batch", "commits", "mixed", "net")
    found: dict[str, dict[str, dict[str, NDArray[Any]]]] = {kind: {} for kind in kinds}
    place = 0
    for kind, name, part, dtype, shape in listed:
        # Copy: kernels are compiled for aligned, writable arrays.
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = data[place : place + size]
        found[kind].setdefault(name, {})[part] = array
        place += size + -size % _ALIGN
    batch = {name: _changes_of(parts) for name, parts in found["batch"].items()}
    values = {name: (parts["data"], parts["offsets"]) for name, parts in found["values"].items()}
    nets = {name: NetDelta(parts["codes"], parts["delta"]) for name, parts in found["net"].items()}
    ends = {name: parts["ends"].astype(np.int64) for name, parts in found["mixed"].items()}
    if found["commits"]:
        ends = dict.fromkeys(batch, found["commits"][""]["ends"])
    return Record(version, batch, values, ends or None, nets)


def _changes_of(parts: Mapping[str, NDArray[Any]]) -> Changes:
    many = len(parts["codes"])
    usual: dict[str, NDArray[Any]] = {"ops": np.zeros(many, np.int8), "counts": np.ones(many, np.int64)}
    return Changes(**{**usual, **parts})
