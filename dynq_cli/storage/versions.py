"""Read earlier versions: open an engine and revert the changes since.

    live_at(v)         the views as they were at version v
    diff_since(v)      the difference of a result since version v

Both read one consistent version, also while a writer commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa

from dynq_cli.engine.versions import diff, diff_schema, went_back
from dynq_cli.engine.views import Views
from dynq_cli.storage.history import nets_since, version_of
from dynq_cli.storage.manifest import Manifest, damaged, read_manifest
from dynq_cli.storage.plans import Planned
from dynq_cli.storage.recover import open_engine

Read = TypeVar("Read")


class Diff(NamedTuple):
    """The difference of a result between two versions, as a change log; an iterator, to be read once."""

    since: int
    until: int
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def live_at(directory: Path, planned: Planned, version: int) -> Views:
    """Return the views of a version. RejectedError if it is not kept.

    O(state) at the speed of a checksum, and O(changes since the last snapshot before that version).
    """

    def read(manifest: Manifest) -> Views:
        version_of(manifest, version)
        nets = nets_since(directory, manifest, version)
        return went_back(lambda: _open(directory, manifest, planned), nets)

    return _undisturbed(directory, read)


def diff_since(directory: Path, planned: Planned, since: str | int | None, query: str, block: int) -> Diff:
    """Return the difference since a version or mark, by default since before the last command that applied changes."""

    def read(manifest: Manifest) -> Diff:
        version = manifest.before if since is None else version_of(manifest, since)
        nets = nets_since(directory, manifest, version)
        new = _open(directory, manifest, planned)
        new.require(query, "diff")
        old = went_back(lambda: _open(directory, manifest, planned), nets, query)
        return Diff(version, manifest.version, diff_schema(new, query), diff(old, new, query, block))

    return _undisturbed(directory, read)


def _open(directory: Path, manifest: Manifest, planned: Planned) -> Views:
    return open_engine(directory, manifest, planned).views


def _undisturbed(directory: Path, read: Callable[[Manifest], Read]) -> Read:
    """Call `read` with the manifest in force; repeat if a writer has removed one of its files meanwhile."""
    while True:
        manifest = read_manifest(directory)
        try:
            return read(manifest)
        except FileNotFoundError as error:
            if read_manifest(directory).number == manifest.number:
                raise damaged(Path(error.filename), "is missing") from None
