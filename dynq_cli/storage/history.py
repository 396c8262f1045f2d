"""Earlier versions: which ones are kept, and the net change of base rows since each.

    rows of version v = rows of the version in force − nets_since(v)

A version takes no space except its log records. Logs of earlier generations are kept back to the oldest mark, and to
the version before the last command that applied changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.storage.layout import wal_name
from dynq_cli.storage.manifest import Era, Manifest, PastLog

if TYPE_CHECKING:
    from dynq_cli.engine.consolidate import NetDelta
    from dynq_cli.storage.wal import Record

# The same pattern as in the outputs of a spec. A number would be taken for a version.
_MARK = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def kept_since(manifest: Manifest) -> int:
    """Return the oldest version that can be read. O(1)."""
    oldest = manifest.past[0].version if manifest.past else manifest.snapshot.version
    return max(manifest.eras[0].since if manifest.eras else oldest, manifest.floor)


def era_of(manifest: Manifest, version: int) -> Era | None:
    """Return the era that has a version; None if the manifest itself reads it."""
    return next((era for era in manifest.eras if version <= era.until), None)


def version_of(manifest: Manifest, named: str | int) -> int:
    """Resolve a version number or a mark. RejectedError if there is no such version, or it is no longer kept."""
    text = str(named)
    if text.isdecimal():
        version = int(text)
    elif text in manifest.marks:
        version = manifest.marks[text]
    else:
        known = ", ".join(manifest.marks) or "none"
        raise RejectedError(f"there is no mark {text}; the marks are: {known}\n  hint: `dynq mark NAME` makes one")
    if version > manifest.version:
        raise RejectedError(f"there is no version {version} yet; the last one is {manifest.version}")
    oldest = kept_since(manifest)
    if version < oldest:
        raise RejectedError(
            f"version {version} is not kept any more; the oldest is {oldest}\n"
            "  hint: a mark keeps a version: `dynq mark NAME`"
        )
    return version


def check_mark(name: str) -> None:
    """Raise UsageError unless this is a valid name of a mark."""
    if not _MARK.fullmatch(name):
        raise UsageError(
            f"a mark cannot be named {name!r}\n"
            "  hint: a mark has letters, digits, `_`, `-` and `.`, and begins with a letter or `_`"
        )


def needed_since(manifest: Manifest) -> int:
    """Return the oldest version that a mark, or `before`, needs."""
    return min([manifest.before, *manifest.marks.values()])


def with_past(manifest: Manifest) -> tuple[PastLog, ...]:
    """Return the past logs once a new generation starts: the needed ones, and the log in force."""
    ended = PastLog(manifest.generation, manifest.snapshot.version, int(manifest.snapshot.checksum, 16), manifest.wal)
    return (*without_spare(manifest).past, ended)


def without_spare(manifest: Manifest) -> Manifest:
    """Drop the past logs and eras that no mark, nor `before`, needs."""
    oldest = needed_since(manifest)
    kept = tuple(past for past, end in _ending(manifest) if end > oldest)
    return replace(manifest, past=kept, eras=tuple(era for era in manifest.eras if era.until >= oldest))


def pruned(manifest: Manifest) -> Manifest:
    """Drop all versions older than `needed_since`."""
    return replace(without_spare(manifest), floor=max(manifest.floor, needed_since(manifest)))


def _ending(manifest: Manifest) -> list[tuple[PastLog, int]]:
    """Pair each past log with the version at which it ends."""
    versions = [*(past.version for past in manifest.past), manifest.snapshot.version]
    return list(zip(manifest.past, versions[1:], strict=True))


def nets_since(directory: Path, manifest: Manifest, version: int) -> Mapping[str, NetDelta]:
    """Return the net change of base rows after a version, by relation.

    FileNotFoundError if a writer has removed a log meanwhile. O(changes since the last snapshot before that version):
    a log is read from its start, because each checksum covers the one before it.
    """
    from dynq_cli.engine.net_delta import joined, plain_net_delta

    nets: dict[str, list[NetDelta]] = {}
    for record in _records(directory, manifest, version):
        for relation, changes in record.batch.items():
            nets.setdefault(relation, []).append(record.nets.get(relation) or plain_net_delta(changes))
    return {relation: joined(several) for relation, several in nets.items()}


def _records(directory: Path, manifest: Manifest, version: int) -> Iterator[Record]:
    from dynq_cli.storage.wal import no_records, read_records

    for past, end in _ending(manifest):
        if end > version:
            path = directory / wal_name(past.generation)
            yield from _after(version, read_records(path, past.start, past.wal))
    path = directory / wal_name(manifest.generation)
    yield from _after(version, read_records(path, no_records(manifest.snapshot), manifest.wal))


def _after(version: int, records: Iterator[Record]) -> Iterator[Record]:
    return (record for record in records if record.version > version)
