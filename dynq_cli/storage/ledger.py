"""The ledger: which logs became which version, for as long as the state lives.

    Ledger(directory, append_entry(directory, facts, entry)).find(relation, name) = the entry's log

An append-only file with one entry per version. The manifest commits it: it has the length and the checksum of the
last entry. Each checksum covers the checksum of the entry before it, so the last one covers the whole file. Bytes
beyond the length were never committed: readers ignore them, the next writer truncates them.

Appending writes O(entry) bytes. Opening reads nothing. The first lookup reads and checks the *tail*, at most a few
hundred entries; older entries are found through indexes (`ledger_index`), so half a million versions answer as fast as
ten. Every entry that a lookup reads is checked by its checksum, which needs only the checksum of the entry before it.
`verify_ledger` reads the whole file.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from dynq_cli.storage.batches import Batch
from dynq_cli.storage.layout import write_at
from dynq_cli.storage.ledger_facts import LEDGER, LedgerFacts, index_name
from dynq_cli.storage.ledger_index import OpenIndex, read_index, write_index
from dynq_cli.storage.manifest_facts import Manifest, damaged

# The `form` of a file that replaced a relation. It is no log: its name may come again with other content.
REPLACE = "replace"

# Maximum number of keys in the tail. An entry with one log has three; reading a full tail takes about 2 ms.
TAIL_KEYS = 768
# An index is merged into the next newer one unless it is at least this many times as large.
RATIO = 4
_CACHED = 64

# An entry is length, text, checksum, length: so it can be read from either end.
_HEAD, _END = struct.Struct("<I"), struct.Struct("<QI")
_VERSION, _NAME, _CONTENT, _BATCH = range(4)


@dataclass(frozen=True)
class AppliedLog:
    """An applied log: its base name, the digest of its content, and its row counts.

    `relation` is empty for a log with rows of several relations. `replaced` is None in entries that an earlier version
    of dynq wrote: there, `inserted` and `deleted` include replaced rows.
    """

    relation: str
    name: str
    content: str
    length: int
    form: str
    rows: int
    inserted: int
    deleted: int
    replaced: int | None = None


@dataclass(frozen=True)
class Entry:
    """A version: its time in microseconds since 1970, in UTC, and the logs and batches that made it."""

    version: int
    time: int
    logs: tuple[AppliedLog, ...] = ()
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True)
class Known:
    """A log that was applied in an earlier version."""

    version: int
    time: int
    log: AppliedLog


def append_entry(directory: Path, facts: LedgerFacts, entry: Entry) -> LedgerFacts:
    """Append an entry durably; see `append_entries`."""
    return append_entries(directory, facts, [astuple(entry)])


def append_entries(directory: Path, facts: LedgerFacts, entries: Sequence[Any]) -> LedgerFacts:
    """Append entries, as JSON has them, durably; return the facts to commit.

    O(entries) amortised: sometimes an index is written. On failure the file is truncated to its old length, at the
    latest by the next writer. The name of a new file is durable after the next `sync_directory`, which writing the
    manifest does.
    """
    framed, checksum, keys = b"", facts.checksum, 0
    for entry in entries:
        text = json.dumps(entry, separators=(",", ":")).encode()
        head = _HEAD.pack(len(text)) + text
        checksum = xxhash.xxh3_64_intdigest(head, seed=checksum)
        framed += head + _END.pack(checksum, len(text))
        keys += len(_keys_of(_entry_of(entry)))
    path = directory / LEDGER
    file = _open_to_append(path, facts)
    try:
        os.ftruncate(file, facts.length)
        try:
            write_at(file, facts.length, framed)
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, facts.length)
            raise
    finally:
        os.close(file)
    made = replace(
        facts,
        length=facts.length + len(framed),
        checksum=checksum,
        entries=facts.entries + len(entries),
        keys=facts.keys + keys,
    )
    return _with_index(directory, made) if made.tail_keys > TAIL_KEYS else made


class Ledger:
    """The committed part of the ledger. Lookups raise DamagedError if a checksum does not match.

    `unwritten` are the entries behind it that only the tail of the log has, as JSON.
    """

    def __init__(self, directory: Path, facts: LedgerFacts, unwritten: Sequence[Any] = ()) -> None:
        self._directory = directory
        self._facts = facts
        self._path = directory / LEDGER
        self._mapped: mmap.mmap | bytes | None = None
        self._indexes: list[OpenIndex] | None = None
        self._tail: dict[int, list[int]] = {}
        self._expected: dict[int, list[Entry]] = {}
        self._cached: dict[int, Entry] = {}
        self._unwritten = list(unwritten)

    @property
    def _data(self) -> mmap.mmap | bytes:
        if self._mapped is None:
            self._mapped = _mapped(self._path, self._facts)
        return self._mapped

    def find(self, relation: str, name: str) -> Known | None:
        """Find the latest log of a relation by file name, no replacement. O(tail) once, then O(log entries)."""
        for entry in self._with_key(_key(_NAME, relation, name)):
            for log in reversed(entry.logs):
                if (log.relation, log.name) == (relation, name) and log.form != REPLACE:
                    return Known(entry.version, entry.time, log)
        return None

    def find_content(self, relation: str, content: str) -> Known | None:
        """Like `find`, by the digest of the content instead of the name. O(tail) once, then O(log entries)."""
        for entry in self._with_key(_key(_CONTENT, relation, content)):
            for log in reversed(entry.logs):
                if (log.relation, log.content) == (relation, content) and log.form != REPLACE:
                    return Known(entry.version, entry.time, log)
        return None

    def find_batch(self, batch: Batch) -> Entry | None:
        """Find the version that applied exactly this batch. O(tail) once, then O(log entries)."""
        key = _key(_BATCH, batch.source, batch.start, batch.stop)
        return next((entry for entry in self._with_key(key) if batch in entry.batches), None)

    def entry(self, version: int) -> Entry | None:
        """Return the entry of a version, or None. O(tail) once, then O(log entries)."""
        found = self._with_key(_key(_VERSION, str(version)))
        return next((entry for entry in found if entry.version == version), None)

    def entries(self, since_version: int = -1, limit: int | None = None) -> Iterator[Entry]:
        """Yield the entries after a version, the latest first. O(1) per entry; no index is opened."""
        stop, expected, given = self._facts.length, self._facts.checksum, 0
        for entry in map(_entry_of, reversed(self._unwritten)):
            if entry.version <= since_version or given == limit:
                return
            yield entry
            given += 1
        while stop > 0 and (limit is None or given < limit):
            start = stop - _END.size - _HEAD.size - _size_before(self._data, stop)
            entry, checksum, end = self._read(start)
            if end != stop or checksum != expected:
                raise damaged(self._path, f"has an entry before byte {stop} that is not what was written")
            if entry.version <= since_version:
                return
            yield entry
            given, stop, expected = given + 1, start, _checksum_before(self._data, start)

    def add(self, entry: Entry) -> None:
        """Add the entry of a version that went to the tail of the log."""
        self._unwritten.append(astuple(entry))
        if self._indexes is not None:
            self.expect(entry)

    def expect(self, entry: Entry) -> None:
        """Let lookups find an entry that is not in the file: that of the tail, or of a rehearsed version."""
        for key in _keys_of(entry):
            self._expected.setdefault(key, []).append(entry)

    def check(self) -> None:
        """Check the tail, and that the indexes exist, as the first lookup does. O(tail)."""
        self._load()

    def _load(self) -> list[OpenIndex]:
        """Load the tail; return the indexes, the latest first."""
        if self._indexes is None:
            self._tail.clear()
            for offset, entry in _walk(self._path, self._data, self._facts, *self._facts.indexed):
                for key in _keys_of(entry):
                    self._tail.setdefault(key, []).append(offset)
            self._indexes = [OpenIndex(self._directory, facts) for facts in reversed(self._facts.indexes)]
            for entry in map(_entry_of, self._unwritten):
                self.expect(entry)
        return self._indexes

    def _with_key(self, key: int) -> Iterator[Entry]:
        """Yield the entries with this hash key, the latest first; keys may collide, so callers compare."""
        indexes = self._load()
        yield from reversed(self._expected.get(key, []))
        yield from map(self._at, reversed(self._tail.get(key, [])))
        for index in indexes:
            yield from map(self._at, index.offsets(key))

    def _at(self, offset: int) -> Entry:
        # The entry of a version with many logs is read once per log: cache it.
        if offset not in self._cached:
            if len(self._cached) >= _CACHED:
                self._cached.clear()
            self._cached[offset] = self._read(offset)[0]
        return self._cached[offset]

    def _read(self, offset: int) -> tuple[Entry, int, int]:
        if offset < 0:
            raise damaged(self._path, "has an entry that starts before the file")
        return _read(self._path, self._data, offset, _checksum_before(self._data, offset))


def ledger_of(directory: Path, manifest: Manifest) -> Ledger:
    """Return the ledger up to the version of a manifest. O(entries of the log's tail)."""
    return Ledger(directory, manifest.ledger, manifest.unwritten)


def verify_ledger(directory: Path, facts: LedgerFacts) -> None:
    """Read every entry and every index. DamagedError if a checksum does not match, or index and ledger differ.

    O(ledger).
    """
    path = directory / LEDGER
    data = _mapped(path, facts)
    since, before, entries, version = 0, 0, 0, -1
    for index in (*facts.indexes, None):
        until = replace(facts, length=index.until, checksum=index.checksum) if index else facts
        found: list[tuple[int, int]] = []
        for offset, entry in _walk(path, data, until, since, before):
            if entry.version <= version:
                raise damaged(path, f"has version {entry.version} after version {version}")
            entries, version = entries + 1, entry.version
            found.extend((key, offset) for key in _keys_of(entry))
        if index:
            keys, offsets = read_index(directory, index)
            if list(zip(keys.tolist(), offsets.tolist(), strict=True)) != sorted(found):
                raise damaged(directory / index_name(index.number), "is not the index of the ledger")
            since, before = index.until, index.checksum
    if entries != facts.entries:
        raise damaged(path, f"has {entries} entries where {facts.entries} were written")


def _with_index(directory: Path, facts: LedgerFacts) -> LedgerFacts:
    """Write an index of the tail, merged with the latest indexes that are not much larger. O(keys written)."""
    import numpy as np

    walked = _walk(directory / LEDGER, _mapped(directory / LEDGER, facts), facts, *facts.indexed)
    tail = np.array([(key, offset) for offset, entry in walked for key in _keys_of(entry)], np.uint64)
    runs, many, kept = [(tail[:, 0], tail[:, 1])], len(tail), list(facts.indexes)
    while kept and kept[-1].keys <= RATIO * many:
        many += kept[-1].keys
        runs.insert(0, read_index(directory, kept.pop()))
    keys, offsets = (np.concatenate(part) for part in zip(*runs, strict=True))
    made = write_index(directory, facts.made + 1, facts.length, facts.checksum, keys, offsets)
    return replace(facts, made=made.number, indexes=(*kept, made))


def _keys_of(entry: Entry) -> list[int]:
    names = [_key(_NAME, log.relation, log.name) for log in entry.logs]
    contents = [_key(_CONTENT, log.relation, log.content) for log in entry.logs]
    batches = [_key(_BATCH, b.source, b.start, b.stop) for b in entry.batches]
    return [_key(_VERSION, str(entry.version)), *names, *contents, *batches]


def _key(kind: int, *parts: str) -> int:
    # File names that are not UTF-8 have lone surrogates; no part contains a NUL.
    return xxhash.xxh3_64_intdigest("\0".join(parts).encode("utf-8", "surrogatepass"), seed=kind)


def _open_to_append(path: Path, facts: LedgerFacts) -> int:
    try:
        file = os.open(path, os.O_RDWR | (0 if facts.length else os.O_CREAT), 0o644)
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    if os.fstat(file).st_size < facts.length:
        os.close(file)
        raise damaged(path, "is shorter than was written")
    return file


def _mapped(path: Path, facts: LedgerFacts) -> mmap.mmap | bytes:
    """Map the committed part; a concurrent writer only changes the bytes behind it."""
    if facts.length == 0:
        return b""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < facts.length:
                raise damaged(path, "is shorter than was written")
            return mmap.mmap(file.fileno(), facts.length, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise damaged(path, "is missing") from None


def _walk(
    path: Path, data: mmap.mmap | bytes, until: LedgerFacts, since: int, before: int
) -> Iterator[tuple[int, Entry]]:
    """Yield (offset, entry) from the byte `since` on; check each. `before` is the checksum of the entry before."""
    while since < until.length:
        entry, before, end = _read(path, data, since, before)
        yield since, entry
        since = end
    if (since, before) != (until.length, until.checksum):
        raise damaged(path, "does not end with the entry that was committed last")


def _read(path: Path, data: mmap.mmap | bytes, offset: int, before: int) -> tuple[Entry, int, int]:
    """Read and check the entry at a byte; return it, its checksum, and the byte at which it ends."""
    text, end = offset + _HEAD.size, len(data)
    if text <= len(data):
        end = text + _HEAD.unpack_from(data, offset)[0]
    if end + _END.size > len(data):
        raise damaged(path, f"has an entry at byte {offset} that does not fit")
    checksum, size = _END.unpack_from(data, end)
    if size != end - text or xxhash.xxh3_64_intdigest(data[offset:end], seed=before) != checksum:
        raise damaged(path, f"has an entry at byte {offset} that is not what was written")
    return _entry_of(json.loads(data[text:end])), checksum, end + _END.size


def _entry_of(read: Any) -> Entry:
    """Return the entry that JSON has."""
    version, time, logs, batches = read
    return Entry(version, time, tuple(AppliedLog(*log) for log in logs), tuple(Batch(*b) for b in batches))


def _checksum_before(data: mmap.mmap | bytes, offset: int) -> int:
    return int(_END.unpack_from(data, offset - _END.size)[0]) if offset else 0


def _size_before(data: mmap.mmap | bytes, offset: int) -> int:
    return int(_END.unpack_from(data, offset - _END.size)[1])
