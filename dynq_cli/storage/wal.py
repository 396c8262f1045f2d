"""The write-ahead log: changes committed after a snapshot, a record per call of the engine, one or more per version.

A record has the changes in codes, in their order, and the values that they added to dictionaries. It does not have the
net change: a row that is inserted and deleted within a commit takes an id and frees it, so only the same changes in the
same order give the same ids.

The checksum of a record covers the checksum of the record before it; the first one covers the snapshot's. So the last
checksum covers the whole log. A version is committed when its commit record is durable (`log_tail`), or the manifest
has the length and checksum of its last record. Bytes behind that were never committed: readers ignore them, the next
writer truncates them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.consolidate import NetDelta
from dynq_cli.engine.engine import Changes
from dynq_cli.engine.mixed_commits import Ends
from dynq_cli.storage.layout import SYNCED, write_at
from dynq_cli.storage.log_tail import (
    ALIGN,
    HEADER,
    RECORD,
    Synced,
    commit_record,
    padded,
    record_checksum,
    synced_bytes,
)
from dynq_cli.storage.manifest_facts import SnapshotFacts, WalFacts, damaged

Values = Mapping[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]
Bytes = NDArray[np.uint8]

_PADDING = b" " * ALIGN
# Records up to this size, in bytes, wait in memory and are written in one call.
_SMALL = 1 << 20
# The zeros behind the records of a writer that stays, in bytes.
_ROOM = 1 << 16


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
    """Append records to the log of a generation; see the module. The caller holds the lock.

    Small records wait in memory: `end` adds a commit record to them, and `sync` makes all durable, by one write and one
    sync. A writer that stays writes zeros behind its records now and then, and later records over them: a sync that
    leaves the length of the file as it is takes a third of the time. `close` cuts them.

    On failure the file is truncated to its length at the last sync, at the latest by the next writer.
    """

    def __init__(self, path: Path, generation: int, facts: WalFacts) -> None:
        self._path, self._generation = path, generation
        # What is durable; that and whole versions; that and the records of the version to come.
        self._durable = self._ended = self.facts = facts
        # Records that are not in the file; its length without them, and with the room behind.
        self._waiting = bytearray()
        self._written = self._size = facts.length
        self._syncs = 0
        self._synced = -1
        self._file = os.open(path, os.O_RDWR)
        if os.fstat(self._file).st_size != facts.length:
            self._call(lambda: os.ftruncate(self._file, facts.length))

    def continues(self, path: Path, facts: WalFacts) -> bool:
        """Whether the log to write to is this one, and is as this process has left it."""
        is_same = self._file >= 0 and path == self._path and facts == self._durable == self.facts
        return is_same and os.fstat(self._file).st_nlink > 0

    def append(self, record: Record) -> None:
        """Append a record. O(record) time; a large record is written array by array, in O(1) memory."""
        before = self.facts
        arrays = _arrays_of(record)
        listed = padded(json.dumps([[*name, a.dtype.str, a.shape] for name, a in arrays.items()]).encode())
        length = len(listed) + sum(a.nbytes + -a.nbytes % ALIGN for a in arrays.values())
        made = record_checksum(before.checksum, len(listed), record.version, length)
        parts = [memoryview(listed)]
        for array in arrays.values():
            parts += [_bytes_of(array), memoryview(_PADDING[: -array.nbytes % ALIGN])]
        for part in parts:
            made.update(part)
        header = HEADER.pack(RECORD, len(listed), record.version, length, made.intdigest())
        many = sum(map(len, record.batch.values()))
        self._add([memoryview(header), *parts], len(header) + length)
        self.facts = WalFacts(before.length + len(header) + length, made.intdigest(), before.changes + many)

    def end(self, version: int, said: Mapping[str, Any], longest: int) -> WalFacts | None:
        """Append the commit record of a version; return the facts of the log, to be put in force by `sync`.

        None if the log would be longer than the bytes given: then the manifest has to have the version.
        """
        record, facts = commit_record(self.facts, self._durable.length, version, said)
        if facts.length > longest:
            return None
        self._add([memoryview(record)], len(record))
        self.facts = self._ended = facts
        return facts

    def sync(self) -> WalFacts:
        """Make all records durable; return the facts to commit."""
        self._call(self._flush)
        self._call(lambda: os.fdatasync(self._file))
        self._durable = self._ended = self.facts
        self._syncs += 1
        return self.facts

    def note_synced(self) -> None:
        """Write the file `synced`, after `sync` of a log that ends with a commit. Not durable, and it need not be."""
        content = synced_bytes(Synced(self._generation, self._durable.length, self._durable.checksum))
        with suppress(OSError):
            if self._synced < 0:
                self._synced = os.open(self._path.with_name(SYNCED), os.O_RDWR | os.O_CREAT, 0o644)
            write_at(self._synced, 0, content)

    def abandon(self) -> None:
        """Discard the records after the last commit record. Does nothing after a failed call, which has done so."""
        if self._file < 0:
            return
        if self._written > self._ended.length:
            self._waiting.clear()
            self._written = self._size = self._ended.length
            self._call(lambda: os.ftruncate(self._file, self._written))
        del self._waiting[self._ended.length - self._written :]
        self.facts = self._ended

    def close(self) -> None:
        """Cut the room behind the records, and close the file. The caller holds the lock."""
        if self._file >= 0 and self._size > self._written:
            with suppress(OSError):
                os.ftruncate(self._file, self._durable.length)
        self.leave()

    def leave(self) -> None:
        """Close the file as it is: another process may have gone on with it."""
        # Never close twice: the descriptor may belong to another file by then.
        for file in (self._file, self._synced):
            if file >= 0:
                os.close(file)
        self._file = self._synced = -1

    def _add(self, parts: Sequence[memoryview], length: int) -> None:
        if len(self._waiting) + length > _SMALL:
            self._call(self._flush)
        if length <= _SMALL:
            for part in parts:
                self._waiting += part
            return
        self._call(lambda: self._write(parts))

    def _flush(self) -> None:
        """Write the records that wait, and room behind them if the file is full and was synced twice."""
        if not self._waiting:
            return
        content = bytes(self._waiting)
        room = _ROOM if self._syncs > 1 and self._written + len(content) > self._size else 0
        write_at(self._file, self._written, content + bytes(room))
        self._waiting.clear()
        self._written += len(content)
        self._size = max(self._size, self._written + room)

    def _write(self, parts: Sequence[memoryview]) -> None:
        for part in parts:
            write_at(self._file, self._written, part)
            self._written += len(part)
        self._size = max(self._size, self._written)

    def _call(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError:
            self._waiting.clear()
            self.facts = self._ended = self._durable
            with suppress(OSError):
                os.ftruncate(self._file, self._durable.length)
                # What could not be synced may be on the disk all the same.
                os.fsync(self._file)
            self.leave()
            raise


def no_records(snapshot: SnapshotFacts) -> WalFacts:
    """Return the facts of the empty log after a snapshot."""
    return WalFacts(0, int(snapshot.checksum, 16), 0)


def read_records(path: Path, since: WalFacts, until: WalFacts) -> Iterator[Record]:
    """Yield the records between two committed lengths, after checking all of them.

    FileNotFoundError if the log is missing, DamagedError if it is damaged.
    """
    length = until.length - since.length
    data = np.fromfile(path, np.uint8, max(length, 0), offset=since.length)
    if len(data) != length:
        raise damaged(path, "is shorter than was written")
    found: list[tuple[int, int, Bytes]] = []
    checksum, place = since.checksum, 0
    while place < len(data):
        body = place + HEADER.size
        if body > len(data):
            raise damaged(path, "ends within a record")
        written, listed, version, size, expected = HEADER.unpack(data[place:body].tobytes())
        content = data[body : body + size]
        if len(content) != size or listed > size or written != RECORD:
            raise damaged(path, f"has a record at byte {since.length + place} that does not fit")
        made = record_checksum(checksum, listed, version, size)
        made.update(content.data)
        checksum = made.intdigest()
        if checksum != expected:
            raise damaged(path, f"has a record at byte {since.length + place} that is not what was written")
        if listed:
            found.append((version, listed, content))
        place = body + size
    if checksum != until.checksum:
        raise damaged(path, "does not end with the record that was committed last")
    for version, listed, content in found:
        yield _record_of(version, json.loads(content[:listed].tobytes()), content[listed:])


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
        for part, array, usual in (("computed", changes.computed, 0), ("passes", changes.passes, 1)):
            if len(array) != len(changes):
                continue
            # Where all are the same, as computed values of relations that have filters alone, their shape is enough.
            if (array == usual).all():
                arrays["batch", name, f"{part} columns"] = np.array([array.shape[1], usual])
            else:
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
        place += size + -size % ALIGN
    batch = {name: _changes_of(parts) for name, parts in found["batch"].items()}
    values = {name: (parts["data"], parts["offsets"]) for name, parts in found["values"].items()}
    nets = {name: NetDelta(parts["codes"], parts["delta"]) for name, parts in found["net"].items()}
    ends = {name: parts["ends"].astype(np.int64) for name, parts in found["mixed"].items()}
    if found["commits"]:
        ends = dict.fromkeys(batch, found["commits"][""]["ends"])
    return Record(version, batch, values, ends or None, nets)


def _changes_of(parts: Mapping[str, NDArray[Any]]) -> Changes:
    many = len(parts["codes"])
    parts = dict(parts)
    for part, dtype in (("computed", np.int64), ("passes", np.bool_)):
        if (alike := parts.pop(f"{part} columns", None)) is not None:
            parts[part] = np.full((many, int(alike[0])), alike[1], dtype)
    usual: dict[str, NDArray[Any]] = {"ops": np.zeros(many, np.int8), "counts": np.ones(many, np.int64)}
    return Changes(**{**usual, **parts})
