"""Copy a state: whole, checked, and at one version, also while a process writes to it.

    backup(state, copy)     the copy is a state of its own, of the version in force when its files were read
    backup(copy, state)     the way back

Bytes that a manifest refers to never change, so the copy takes no lock: it has the manifest in force, and of every
file the bytes that the manifest names. If a writer removes one of them meanwhile, the copy starts again. It appears
under its name when all of it is durable and was read back and checked, as `check --read-data` does.

Left out are the previous generation, locks, and files of killed processes: no version that can be read needs them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dynq_cli.atomic import atomic_directory
from dynq_cli.errors import DamagedError, DynqError, UsageError
from dynq_cli.phases import advance, phase
from dynq_cli.storage.eras import read_era
from dynq_cli.storage.integrity import check
from dynq_cli.storage.kinds import verbs_of
from dynq_cli.storage.layout import CURRENT, LOCK, SYNCED, snapshot_name, wal_name, write_at, write_new
from dynq_cli.storage.ledger_facts import LEDGER
from dynq_cli.storage.log_tail import durable, synced_bytes
from dynq_cli.storage.manifest import Manifest, read_manifest, with_tail

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Copied:
    """A copy: its version, the number of its files, and their bytes."""

    version: int
    files: int
    length: int


class OutrunError(Exception):
    """A writer has removed a file of the version that is being copied."""


def backup(source: Path, target: Path) -> Copied:
    """Copy a state into a new directory, and check the copy. O(bytes).

    UsageError if there is something under the name of the target; DamagedError if the state, or its copy, is damaged.
    Then there is no copy.
    """
    shards = verbs_of(source)
    if shards is None:
        read_manifest(source)
    _refuse_existing(target)
    if target.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{target} is inside the state {source}\n  hint: name a directory elsewhere")
    while True:
        try:
            with atomic_directory(target) as made:
                if shards is None:
                    return _copied(source, made)
                found: Copied = shards["copy"](source, made)
                return found
        except OutrunError:
            continue
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):  # another process was faster
                _refuse_existing(target)
            raise DynqError(f"cannot copy {source} to {target}: {error.strerror or error}") from error


def _refuse_existing(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        what = "there is a state in" if (target / CURRENT).exists() else "there is something in"
        raise UsageError(
            f"{what} {target} already; nothing was changed\n  hint: name another directory, or move it away"
        )


def _copied(source: Path, made: Path) -> Copied:
    content = (source / CURRENT).read_bytes()
    try:
        manifest = with_tail(source, content)
    except (FileNotFoundError, DamagedError):
        if (source / CURRENT).read_bytes() != content:
            raise OutrunError from None
        read_manifest(source)  # which says what is damaged
        raise
    try:
        for name, length in _files_of(source, manifest):
            with phase(f"copying {name}", "bytes", length):
                _copy(source / name, made / name, length)
    except FileNotFoundError:
        if read_manifest(source).number != manifest.number:
            raise OutrunError from None
        check(source)  # which names all that is missing
        raise
    write_new(made / LOCK, b"")
    write_new(made / SYNCED, synced_bytes(durable(manifest)))
    write_new(made / CURRENT, content)
    try:
        check(made, read_data=True)
    except DamagedError as error:
        check(source, read_data=True)  # which names the file of the state, if the damage is there
        raise DamagedError(f"the copy differs from the state: {str(error).partition(chr(10))[0]}") from None
    entries = [entry.stat().st_size for entry in os.scandir(made)]
    return Copied(manifest.version, len(entries), sum(entries))


def _files_of(directory: Path, manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield the files of a version, each with the number of its bytes that the version needs."""
    lengths = {LEDGER: manifest.ledger.length, **_lengths_of(manifest)}
    plans = {manifest.plans_file}
    for era in manifest.eras:
        kept = read_era(directory, era)
        plans.add(kept.plans_file)
        lengths |= _lengths_of(kept)
    for name in sorted(manifest.files):
        if name not in plans or (directory / name).exists():
            yield name, lengths[name] if name in lengths else (directory / name).stat().st_size


def _lengths_of(manifest: Manifest) -> dict[str, int]:
    return {
        snapshot_name(manifest.generation): manifest.snapshot.length,
        wal_name(manifest.generation): manifest.wal.length,
        **{wal_name(past.generation): past.wal.length for past in manifest.past},
    }


def _copy(source: Path, target: Path, length: int) -> None:
    """Copy the first bytes of a file durably; blocks of zeros become holes. A shorter file is copied as it is."""
    with source.open("rb", buffering=0) as original, target.open("wb", buffering=0) as copy:
        done = 0
        while done < length and (block := original.read(min(_BLOCK, length - done))):
            if block.count(0) < len(block):
                write_at(copy.fileno(), done, block)
            done += len(block)
            advance(len(block))
        copy.truncate(done)
        os.fsync(copy.fileno())
