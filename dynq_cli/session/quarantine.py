"""A directory for logs that `run` refuses: each is set aside with its reason, and nothing in it is overwritten.

    with quarantining(".quarantine", "inbox", state) as aside:
        aside.take("inbox/orders/7.csv", error)      → .quarantine/orders/7.csv, .quarantine/orders/7.csv.reason.json

The reason is written first, then the log is renamed. If the process is killed in between, the log stays in the inbox,
and the next run refuses it again. Across file systems, the log is copied atomically and then removed; if the next run
finds the same content in both places, it only removes the log from the inbox. If the name is taken by other content,
the log goes to a numbered directory, `2/orders/7.csv`.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from dynq_cli.atomic import atomic_directory, atomic_file, make_directories, sync_directory
from dynq_cli.errors import DynqError, UsageError
from dynq_cli.io.data_files import REASON, SET_ASIDE_MARK, is_reason

_NOTE = b"Logs that dynq run set aside, each with its reason beside it. dynq does not read this directory as logs.\n"
_GOING = ".set-aside."
_BLOCK = 1 << 20
_LONGEST = 255  # bytes of a name


@dataclass(frozen=True)
class SetAside:
    """A log that was set aside: where it was, where it is, and why. `stays`: why it could not leave the inbox.

    `path` is empty if it could not even be copied: then its reason alone is in the quarantine.
    """

    log: str
    path: str
    reason: str
    stays: str = ""


@contextmanager
def quarantining(directory: str, inbox: str, state: Path) -> Iterator[Quarantine]:
    """Open a quarantine directory, or create it. UsageError for a directory with other files."""
    check_place(directory, inbox, state)
    place = Path(directory)
    try:
        place.mkdir(parents=True, exist_ok=True)
        mark = os.open(place / SET_ASIDE_MARK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise DynqError(f"cannot set logs aside into {directory}: {error.strerror or error}") from error
    try:
        if not os.fstat(mark).st_size:
            os.write(mark, _NOTE)
        made = Quarantine(place, inbox, mark)
        made.sweep()
        yield made
    finally:
        os.close(mark)


def check_place(directory: str, inbox: str, state: Path) -> None:
    """Raise UsageError unless a directory is a quarantine, or can become one."""
    real = Path(directory).resolve()
    for other, called in ((Path(inbox).resolve(), "the inbox"), (state.resolve(), "the state")):
        if real == other or other.is_relative_to(real):
            raise UsageError(f"--quarantine {directory} is {called}, or around it: name a directory of its own")
    if real.is_relative_to(state.resolve()):
        raise UsageError(f"--quarantine {directory} is inside the state: name a directory of its own")
    if not real.exists():
        return
    if not real.is_dir():
        raise UsageError(f"--quarantine {directory} is no directory: name one that is not there, or is empty")
    if not (real / SET_ASIDE_MARK).exists() and any(real.iterdir()):
        raise UsageError(f"--quarantine {directory} holds other files: name a directory that is not there, or is empty")


class Quarantine:
    """See the module. The lock of the file `mark` is held while a log moves: several states may share a quarantine."""

    def __init__(self, place: Path, inbox: str, mark: int) -> None:
        self._place = place
        self._inbox = inbox
        self._mark = mark

    def take(self, log: str, error: DynqError) -> SetAside:
        """Set a log aside: a file, or a directory with its contents. DynqError if that fails."""
        fcntl.flock(self._mark, fcntl.LOCK_EX)
        try:
            return self._take(Path(log), error)
        except OSError as failed:
            why = failed.strerror or str(failed)
            raise DynqError(f"cannot set {log} aside into {self._place}: {why}\n  it is refused: {error}") from failed
        finally:
            fcntl.flock(self._mark, fcntl.LOCK_UN)

    def sweep(self) -> None:
        """Finish removing directories from the inbox that a killed run had already set aside."""
        for entry in os.scandir(self._inbox):
            if entry.name.startswith(_GOING) and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)

    def _take(self, log: Path, error: DynqError) -> SetAside:
        target = _target(self._place, self._inbox, log)
        make_directories(target.parent)
        said = {"log": str(log), "reason": str(error), "code": error.code, "time": f"{datetime.now(UTC):%FT%TZ}"}
        with atomic_file(str(_reason_of(target))) as file:
            file.write(json.dumps(said, ensure_ascii=False, indent=1).encode(errors="backslashreplace") + b"\n")
        stays = ""
        if os.path.lexists(target) or not _renamed(log, target):
            if not os.path.lexists(target):
                if not log.is_symlink() and not os.access(log, os.R_OK):
                    return SetAside(str(log), "", str(error), os.strerror(errno.EACCES))
                _copy(log, target)
                if not _is_same(log, target):  # what was added meanwhile is only there, and is refused by itself
                    return SetAside(str(log), str(target), str(error), "it was changed while it was copied")
            stays = self._remove(log)
        return SetAside(str(log), str(target), str(error), stays)

    def _remove(self, log: Path) -> str:
        """Remove a copied log from the inbox; return the reason if that fails, else an empty text."""
        try:
            if log.is_symlink() or not log.is_dir():
                log.unlink()
                sync_directory(log.parent)
            else:  # what is removed file by file must not look like a log on the way
                going = tempfile.mkdtemp(prefix=_GOING, dir=self._inbox)
                os.replace(log, going)
                sync_directory(log.parent)
                shutil.rmtree(going, ignore_errors=True)
        except OSError as error:
            return error.strerror or str(error)
        return ""


class Rehearsed:
    """A quarantine for rehearsals: it only reports where logs would be moved."""

    def __init__(self, directory: str, inbox: str, state: Path) -> None:
        check_place(directory, inbox, state)
        self._place, self._inbox = Path(directory), inbox

    def take(self, log: str, error: DynqError) -> SetAside:
        return SetAside(log, str(_target(self._place, self._inbox, Path(log))), str(error))


def _target(place: Path, inbox: str, log: Path) -> Path:
    """Return the first place of a log in a quarantine that is free."""
    name = os.path.relpath(log, inbox)
    places = chain((place / name,), (place / str(number) / name for number in count(2)))
    return next(path for path in places if _is_free(place, path, log))


def _is_free(place: Path, target: Path, log: Path) -> bool:
    """Whether a log can be moved there: the target does not exist, or has the same content."""
    inside = target.relative_to(place).parents
    if any(os.path.lexists(place / above) and not (place / above).is_dir() for above in inside):
        return False
    if not _is_reason(_reason_of(target)):
        return False
    return not os.path.lexists(target) or _is_same(target, log)


def _reason_of(target: Path) -> Path:
    name = f"{target.name}{REASON}"
    if len(os.fsencode(name)) > _LONGEST:
        name = f"{hashlib.sha256(os.fsencode(target.name)).hexdigest()}{REASON}"
    return target.with_name(name)


def _renamed(log: Path, target: Path) -> bool:
    """Rename a log; return whether that was possible."""
    try:
        os.rename(log, target)
    except OSError:  # another file system, or a directory that cannot be changed: a copy says which
        return False
    sync_directory(target.parent)
    sync_directory(log.parent)
    return True


def _copy(log: Path, target: Path) -> None:
    if log.is_symlink():
        os.symlink(os.readlink(log), target)
        sync_directory(target.parent)
    elif log.is_dir():
        with atomic_directory(target) as made:
            shutil.copytree(log, made, symlinks=True, dirs_exist_ok=True)
            for folder, _, names in os.walk(made, topdown=False):
                for name in names:
                    _sync(os.path.join(folder, name))
                _sync(folder)
    else:
        with log.open("rb") as source, atomic_file(str(target)) as file:
            while block := source.read(_BLOCK):
                file.write(block)


def _sync(path: str) -> None:
    if not os.path.islink(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two logs have the same content: files, links, or directories with all below them. O(bytes)."""
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and os.readlink(one) == os.readlink(other)
    if one.is_dir() and other.is_dir():
        names = sorted(os.listdir(one))
        return names == sorted(os.listdir(other)) and all(_is_same(one / name, other / name) for name in names)
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)


def _is_reason(path: Path) -> bool:
    """Whether a reason may be written there: nothing is, or a reason of before."""
    try:
        return is_reason(str(path))
    except FileNotFoundError:
        return True
    except (IsADirectoryError, PermissionError):
        return False
