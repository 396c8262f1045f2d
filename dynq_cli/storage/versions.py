"""Reading versions before the one in force: an engine is opened and goes back.

    live_at(v)         the engine as it was at version v
    diff_since(v)      what came and went since

Both see one version in force, whatever a writer does meanwhile.
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
    """What came and went from one version to another: a change log, to be read once."""

    since: int
    until: int
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def live_at(directory: Path, planned: Planned, version: int) -> Views:
    """The engine of a version. RejectedError if it is not kept. O(state) at the speed of a checksum, and
    O(changes since the snapshot before that version)."""

    def read(manifest: Manifest) -> Views:
        version_of(manifest, version)
        nets = nets_since(directory, manifest, version)
        return went_back(lambda: _open(directory, manifest, planned), nets)

    return _undisturbed(directory, read)


def diff_since(directory: Path, planned: Planned, since: str | int | None, query: str, block: int) -> Diff:
    """What came and went since a version or mark, by default since before the last command that applied something."""

    def read(manifest: Manifest) -> Diff:
        version = manifest.before if since is None else version_of(manifest, since)
        nets = nets_since(directory, manifest, version)
        new = _open(directory, manifest, planned)
        old = went_back(lambda: _open(directory, manifest, planned), nets, query)
        return Diff(version, manifest.version, diff_schema(new, query), diff(old, new, query, block))

    return _undisturbed(directory, read)


def _open(directory: Path, manifest: Manifest, planned: Planned) -> Views:
    return open_engine(directory, manifest, planned).live


def _undisturbed(directory: Path, read: Callable[[Manifest], Read]) -> Read:
    """What is read from the version in force; again, if a writer went on and removed what was being read."""
    while True:
        manifest = read_manifest(directory)
        try:
            return read(manifest)
        except FileNotFoundError as error:
            if read_manifest(directory).number == manifest.number:
                raise damaged(Path(error.filename), "is missing") from None
