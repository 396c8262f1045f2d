"""Keep the mirrors of a spec: tables of other systems that are equal to a result (`io/tables/mirror`).

    sync(state, directory)      afterwards every mirror holds the version in force

A mirror is changed by the delta since the version of its stamp, in the transaction that moves the stamp. It is loaded
where there is no table, or no delta: the query has other columns now, the version is kept no more, or the state is a
copy that went another way. Each mirror has a mark, moved afterwards, so that the versions it needs stay readable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from dynq_cli.errors import DynqError, LockedError, RejectedError
from dynq_cli.phases import Phase, phase
from dynq_cli.storage.ledger import ledger_of
from dynq_cli.storage.manifest import Manifest, read_manifest
from dynq_cli.storage.state import State

if TYPE_CHECKING:
    import pyarrow as pa

    from dynq_cli.io.tables.mirror import Mirror, Stamp, Written
    from dynq_cli.spec.model import Output, Spec

MARKS = "_mirror."


@dataclass(frozen=True)
class Mirrored:
    """What was done to a mirror: whether it was loaded, why, and how many rows went and came."""

    target: str
    version: int
    loaded: bool
    reason: str
    deleted: int
    inserted: int

    def line(self) -> str:
        how = f"loaded{f', {self.reason}' if self.reason else ''}" if self.loaded else "changed"
        return f"{self.target} ({how}: {self.inserted:,} in, {self.deleted:,} out)"


def mirrors_of(spec: Spec) -> list[Output]:
    """Return the outputs that are mirrors."""
    return [output for output in spec.outputs if output.kind == "mirror"]


def behind(state: State, version: int) -> list[Output]:
    """Return the mirrors that may not hold a version. O(mirrors); no other system is asked."""
    marks = state.marks
    return [output for output in mirrors_of(state.spec) if marks.get(mark_of(output), -1) < version]


def sync(state: State, directory: Path, wrote: Callable[[Mirrored], None]) -> list[DynqError]:
    """Bring all mirrors to the version in force; call `wrote` for each that was written. Return what went wrong.

    A mirror that fails does not hold up the others.
    """
    errors: list[DynqError] = []
    outputs = mirrors_of(state.spec)
    for output in outputs:
        try:
            done = sync_one(state, directory, output)
            if done is not None:
                wrote(done)
        except LockedError:
            raise
        except DynqError as error:
            errors.append(error)
    _drop_stale(state, outputs)
    return errors


def sync_one(state: State, directory: Path, output: Output) -> Mirrored | None:
    """Bring one mirror to the version in force. Return None if it was there."""
    from dynq_cli.io.tables.mirror import open_mirror

    with (
        phase(f"mirroring {output.query} to {output.target}") as mirroring,
        open_mirror(output.to, output.table) as mirror,
    ):
        before = mirror.stamp()
        manifest = read_manifest(directory)
        if before is not None and before.state and (before.state, before.query) != (_name(manifest), output.query):
            raise RejectedError(
                f"{output.place}: {output.target} is the mirror of query {before.query} of another state\n"
                "  hint: mirror to another table, or drop it; a state that was made anew is another one"
            )
        reason = _why_load(directory, manifest, before)
        done = None
        if before is not None and reason is None and before.version < manifest.version:
            done = _change(state, directory, output, before, mirror, mirroring)
            reason = None if done else "because there is no difference since its version"
        if done is None and reason is not None:
            done = _load(state, directory, output, reason, mirror, mirroring)
    version = done.version if done else before.version if before else 0
    if state.marks.get(mark_of(output)) != version:
        state.mark(mark_of(output), version)
    return done


def mark_of(output: Output) -> str:
    """Return the mark of a mirror: the version that it is known to hold."""
    return f"{MARKS}{output.query}.{xxhash.xxh3_64_hexdigest(f'{output.to} {output.table}'.encode())[:8]}"


def _why_load(directory: Path, manifest: Manifest, before: Stamp | None) -> str | None:
    """Return why a mirror has to be loaded, or None if a delta leads from its version to the one in force."""
    if before is None:
        return ""
    if not before.state:
        return "because another version of DuckDB wrote it"
    if before.version > manifest.version or before.made != _made(directory, manifest, before.version):
        return f"because the state has not the version {before.version} that it held"
    return None


def _change(
    state: State, directory: Path, output: Output, before: Stamp, mirror: Mirror, mirroring: Phase
) -> Mirrored | None:
    """Apply the delta since a version. Return None if there is none."""
    try:
        found = state.diff(output.query, before.version)
    except RejectedError:  # it is kept no more, or the query has other columns now
        return None
    stamp = _stamp(directory, output, found.until)
    written = mirror.change(_unmarked(found.schema), _counted(found.batches, mirroring), stamp)
    return _mirrored(output, stamp, written, None)


def _load(state: State, directory: Path, output: Output, reason: str, mirror: Mirror, mirroring: Phase) -> Mirrored:
    version = -1
    while version != state.version:  # another process may write between
        version = state.version
        schema, rows = state.schema(output.query), state.enum(output.query)
    stamp = _stamp(directory, output, version)
    written = mirror.load(schema, _counted(rows, mirroring), stamp)
    return _mirrored(output, stamp, written, reason)


def _mirrored(output: Output, stamp: Stamp, written: Written, reason: str | None) -> Mirrored:
    return Mirrored(output.target, stamp.version, reason is not None, reason or "", written.deleted, written.inserted)


def _stamp(directory: Path, output: Output, version: int) -> Stamp:
    from dynq_cli.io.tables.mirror import Stamp

    manifest = read_manifest(directory)
    return Stamp(_name(manifest), output.query, version, _made(directory, manifest, version) or 0)


def _name(manifest: Manifest) -> str:
    """Name a state: its copies have the same name."""
    return str(manifest.made)


def _made(directory: Path, manifest: Manifest, version: int) -> int | None:
    """When a version was made: versions of copies that went another way differ in it."""
    entry = ledger_of(directory, manifest).entry(version)
    return None if entry is None else entry.time


def _counted(batches: Iterator[pa.RecordBatch], mirroring: Phase) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        mirroring.add(batch.num_rows)


def _unmarked(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata()


def _drop_stale(state: State, outputs: Sequence[Output]) -> None:
    """Remove the marks of mirrors that the spec has no more."""
    kept = {mark_of(output) for output in outputs}
    for name in [name for name in state.marks if name.startswith(MARKS) and name not in kept]:
        with suppress(RejectedError):
            state.unmark(name)
