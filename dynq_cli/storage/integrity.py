"""Check every file of a state against the manifest, to find damage before a command meets it.

    check(directory)                    presence, lengths, the spec, checksums of all logs: O(logs), not O(state)
    check(directory, read_data=True)    every byte, also of the previous generation; counts, invariants: O(state)

Return one finding per file, or raise a DamagedError that names every damaged file. The check takes no lock: if a
writer removes files meanwhile, it starts again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from dynq_cli.errors import DamagedError
from dynq_cli.phases import phase
from dynq_cli.spec.model import DEGREES
from dynq_cli.storage.eras import read_era
from dynq_cli.storage.kinds import verbs_of
from dynq_cli.storage.layout import CURRENT, ENGINE, PREVIOUS, checksum_of, era_name, snapshot_name, wal_name
from dynq_cli.storage.ledger import ledger_of, verify_ledger
from dynq_cli.storage.ledger_facts import LEDGER
from dynq_cli.storage.manifest import Era, Manifest, PastLog, damaged, parse_manifest, read_checkpoint, read_manifest
from dynq_cli.storage.prune import spare_files


@dataclass(frozen=True)
class Finding:
    """A statement about a file: it matches the manifest (`ok`), or a remark (`info`)."""

    file: str
    level: Literal["ok", "info"]
    what: str


# Invariants are checked row by row, about 10,000 rows a second: only of small states. `verify` serves for all.
WALKED_BYTES = 16 * 2**20

# A file and its check, which returns a remark, or raises DamagedError or FileNotFoundError.
Step = tuple[str, Callable[[], str]]


def check(directory: Path, *, read_data: bool = False) -> list[Finding]:
    """Check every file of a state. Raise NoStateError, DamagedError, or with `read_data` SpecDiffersError."""
    if (shards := verbs_of(directory)) is not None:
        findings: list[Finding] = shards["check"](directory, read_data=read_data)
        return findings
    while True:
        manifest, of_tail = _in_force(directory)
        previous = _read_bytes(directory / PREVIOUS)
        found, damage = _look(directory, manifest, previous, read_data, of_tail)
        if not damage:
            return found
        # A writer or a prune may have removed a file during the check.
        if _in_force(directory)[0].number == manifest.number and _read_bytes(directory / PREVIOUS) == previous:
            told = "\n".join(dict.fromkeys(damage))
            raise DamagedError(f"{told}\n  hint: put the directory back from a copy of it")


def _in_force(directory: Path) -> tuple[Manifest, list[str]]:
    """Read the manifest in force; if the tail of the log is damaged, the one without it, and the damage."""
    try:
        return read_manifest(directory), []
    except DamagedError as error:
        return read_checkpoint(directory), [str(error).partition("\n")[0]]


def _look(
    directory: Path, manifest: Manifest, previous: bytes | None, read_data: bool, of_tail: Sequence[str]
) -> tuple[list[Finding], list[str]]:
    """Return the findings, and a text for each damaged file."""
    found = [Finding(CURRENT, "ok", f"version {manifest.version}, generation {manifest.generation}")]
    damage = list(of_tail)

    def take(step: Step) -> None:
        name, look = step
        try:
            with phase(f"checking {name}"):
                found.append(Finding(name, "ok", look()))
        except FileNotFoundError:
            damage.append(f"{directory / name} is missing: the state is damaged")
        except DamagedError as error:
            damage.append(str(error).partition("\n")[0])

    for step in _files(directory, manifest, read_data):
        take(step)
    kept = [manifest]
    if previous is not None:
        try:
            kept.append(parse_manifest(directory / PREVIOUS, previous))
        except DamagedError as error:
            damage.append(str(error).partition("\n")[0])
        else:
            found.append(Finding(PREVIOUS, "ok", f"version {kept[1].version}, generation {kept[1].generation}"))
            for step in _generation(directory, kept[1], read_data):
                if step[0] not in manifest.files:  # else it was checked above
                    take(step)
    if read_data and not damage:
        take((snapshot_name(manifest.generation), lambda: _engine(directory, manifest)))
    if len(kept) > 1 or previous is None:
        for entry in spare_files(directory, *kept):
            found.append(Finding(entry.name, "info", "is being written, or was left behind; `dynq prune` removes it"))
    return found, damage


def _files(directory: Path, manifest: Manifest, read_data: bool) -> Iterator[Step]:
    yield from _rows(directory, manifest, read_data)
    for era in manifest.eras:
        yield era_name(era.generation), partial(_era, directory, era)
        with suppress(DamagedError, FileNotFoundError):  # which the step before tells
            yield from _rows(directory, read_era(directory, era), read_data)
    yield LEDGER, lambda: _ledger(directory, manifest, read_data)


def _rows(directory: Path, manifest: Manifest, read_data: bool) -> Iterator[Step]:
    yield manifest.spec_file, lambda: _spec(directory, manifest)
    yield manifest.plans_file, lambda: _plans(directory, manifest)
    yield from _generation(directory, manifest, read_data)
    for past in manifest.past:
        yield wal_name(past.generation), partial(_past, directory, past)


def _era(directory: Path, era: Era) -> str:
    read_era(directory, era)
    return f"versions {era.since} to {era.until}, before the spec was altered"


def _generation(directory: Path, manifest: Manifest, read_data: bool) -> Iterator[Step]:
    yield snapshot_name(manifest.generation), lambda: _snapshot(directory, manifest, read_data)
    yield wal_name(manifest.generation), lambda: _wal(directory, manifest)


def _spec(directory: Path, manifest: Manifest) -> str:
    path = directory / manifest.spec_file
    if checksum_of(path.read_bytes()) != manifest.spec:
        raise damaged(path, "is not what was written")
    return f"queries {', '.join(name for name in manifest.plans if not name.startswith(DEGREES))}"


def _plans(directory: Path, manifest: Manifest) -> str:
    from dynq_cli.storage.plans import has_plans

    return "as this version plans" if has_plans(directory, manifest) else "not there for this version, which plans anew"


def _snapshot(directory: Path, manifest: Manifest, read_data: bool) -> str:
    from dynq_cli.storage.snapshot import open_snapshot

    path, facts = directory / snapshot_name(manifest.generation), manifest.snapshot
    if read_data:
        open_snapshot(path, facts)
    elif os.stat(path).st_size != facts.length:
        raise damaged(path, "has another length than was written")
    text = f"version {facts.version}, {facts.length} bytes{'' if read_data else ', not read'}"
    return text if facts.engine == ENGINE else f"{text}; of another version of dynq: its views are rebuilt when opened"


def _wal(directory: Path, manifest: Manifest) -> str:
    from dynq_cli.storage.wal import no_records, read_records

    # `read_records` checks all records before it yields the first.
    next(read_records(directory / wal_name(manifest.generation), no_records(manifest.snapshot), manifest.wal), None)
    return f"{manifest.wal.changes} changes, {manifest.wal.length} bytes"


def _past(directory: Path, past: PastLog) -> str:
    from dynq_cli.storage.wal import read_records

    next(read_records(directory / wal_name(past.generation), past.start, past.wal), None)
    return f"{past.wal.changes} changes, {past.wal.length} bytes, kept for versions since {past.version}"


def _ledger(directory: Path, manifest: Manifest, read_data: bool) -> str:
    known = ledger_of(directory, manifest)
    known.check()
    if read_data:
        verify_ledger(directory, manifest.ledger)
    last = next(known.entries(limit=1), None)
    if last is not None and last.version != manifest.version:
        raise damaged(directory / LEDGER, f"ends with version {last.version}, not {manifest.version}")
    return (
        f"{manifest.versions_noted} versions, {manifest.ledger.length} bytes{'' if read_data else ', the latest read'}"
    )


def _engine(directory: Path, manifest: Manifest) -> str:
    """Open the state as every command does; compare the counts and, of small states, check the invariants."""
    from dynq_cli.storage.commit import counts_of
    from dynq_cli.storage.plans import read_plans
    from dynq_cli.storage.recover import open_views

    path = directory / snapshot_name(manifest.generation)
    views = open_views(directory, manifest, read_plans(directory, manifest))
    counts = counts_of(views)
    for query, counted in manifest.counts.items():
        if counts.get(query) != counted:
            raise damaged(path, f"gives another count of {query} than {CURRENT}")
    if manifest.snapshot.length > WALKED_BYTES:
        return f"opened: version {manifest.version}, every count holds"
    try:
        views._check()
    except AssertionError as error:
        raise damaged(path, f"violates an invariant ({error})") from None
    return f"opened: version {manifest.version}, every count and every row holds"


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
