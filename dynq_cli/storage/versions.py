"""Read earlier versions: open an engine and revert the changes since.

    views_at(v)         the views as they were at version v
    diff_since(v)      the difference of a result since version v

Both read one consistent version, also while a writer commits. A version before an `alter` made the views anew is read
with the spec and the files of its era (`eras`), and compared with the version in force row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa

from dynq_cli.engine.result_difference import difference_to
from dynq_cli.engine.versions import diff, diff_schema, went_back
from dynq_cli.engine.views import Views
from dynq_cli.errors import DamagedError
from dynq_cli.storage.eras import manifest_of
from dynq_cli.storage.history import era_of, nets_since, version_of
from dynq_cli.storage.manifest import Manifest, damaged, read_manifest
from dynq_cli.storage.plans import Planned, plans_for
from dynq_cli.storage.recover import open_views

Read = TypeVar("Read")


class Diff(NamedTuple):
    """The difference of a result between two versions, as a change log; an iterator, to be read once."""

    since: int
    until: int
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def views_at(directory: Path, planned: Planned, version: int) -> Views:
    """Return the views of a version. RejectedError if it is not kept.

    O(state) at the speed of a checksum, and O(changes since the last snapshot before that version).
    """

    return _undisturbed(directory, lambda manifest: _at(directory, manifest, planned, version))


def _at(directory: Path, manifest: Manifest, planned: Planned, version: int) -> Views:
    version_of(manifest, version)
    kept = manifest_of(directory, manifest, version)
    nets = nets_since(directory, kept, version)
    return went_back(lambda: _open(directory, kept, planned), nets)


def diff_since(
    directory: Path,
    planned: Planned,
    since: str | int | None,
    query: str,
    block: int,
    *,
    from_nothing: bool = False,
) -> Diff:
    """Return the difference since a version or mark, by default since before the last command that applied changes.

    If the query was not there then, or had other columns: with `from_nothing`, all its rows; else RejectedError.
    """

    def read(manifest: Manifest) -> Diff:
        version = manifest.before if since is None else version_of(manifest, since)
        if era_of(manifest, version) is not None:
            new = _open(directory, manifest, planned)
            before = _at(directory, manifest, planned, version)
            found = difference_to(before, new, query, version, block, from_nothing=from_nothing)
            return Diff(version, manifest.version, diff_schema(new, query), found)
        nets = nets_since(directory, manifest, version)
        new = _open(directory, manifest, planned)
        new.require(query, "diff")
        old = went_back(lambda: _open(directory, manifest, planned), nets, query)
        return Diff(version, manifest.version, diff_schema(new, query), diff(old, new, query, block))

    return _undisturbed(directory, read)


def _open(directory: Path, manifest: Manifest, planned: Planned) -> Views:
    return open_views(directory, manifest, plans_for(directory, manifest, planned))


def _undisturbed(directory: Path, read: Callable[[Manifest], Read]) -> Read:
    """Call `read` with the manifest in force; repeat if a writer has removed one of its files meanwhile."""
    while True:
        manifest = read_manifest(directory)
        try:
            return read(manifest)
        except (FileNotFoundError, DamagedError) as error:
            if read_manifest(directory).number != manifest.number:
                continue
            if isinstance(error, DamagedError):
                raise
            raise damaged(Path(error.filename), "is missing") from None
