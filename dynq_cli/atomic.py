"""Files and directories that appear whole or not at all.

Each is written beside its place under a temporary name, `….xxxxxxxx.tmp`, and renamed when it is complete and durable.
An error leaves the old file as it was, and nothing else. A killed writer leaves its temporary, which the next writer of
the same name removes. A writer holds a lock on its temporary, so that nobody removes one that is still written.
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from dynq_cli.errors import DynqError, UsageError

TEMPORARY = ".tmp"
_RANDOM = r"[a-z0-9_]{8}"
_LONGEST = 200  # bytes of the file's name in that of the temporary, which must stay below 255


@contextmanager
def atomic_file(target: str) -> Iterator[BinaryIO]:
    """A file to write to, put under the name `target` when the block ends without an error.

    UsageError where no file can be; DynqError where it cannot be written. A device or a pipe is written directly.
    """
    path = Path(target).resolve()
    with _said(target, path):
        handle, temporary = _begin(path)
    file = cast(BinaryIO, io.BufferedWriter(_Raw(handle, target), 1 << 16))
    try:
        yield file
        with _said(target, path):
            file.flush()
            if temporary:
                _finish(handle, temporary, path)
    except BaseException:
        if temporary:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        with suppress(DynqError):
            file.close()
        raise
    file.close()


@contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """A directory to fill, put under its name, durably, when the block ends without an error.

    OSError if there is one of that name by then which is not empty.
    """
    import shutil

    directory.parent.mkdir(parents=True, exist_ok=True)
    stem = f"{directory.name}."
    _remove_stale(directory.parent, stem, shutil.rmtree)
    handle, made = _begin_directory(directory.parent, stem)
    try:
        made.chmod(0o777 & ~_umask())
        yield made
        made.replace(directory)
        sync_directory(directory.parent)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def make_directories(path: Path) -> None:
    """Make a directory and those above it, durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_directory(folder.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class _Raw(io.FileIO):
    """A file whose failed writes say which file it was: other errors of the block are not about it."""

    def __init__(self, handle: int, target: str) -> None:
        super().__init__(handle, "wb")
        self._target = target

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _unwritable(self._target, error) from error


@contextmanager
def _said(target: str, path: Path) -> Iterator[None]:
    """Errors of the operating system in words."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"cannot write {target}: there is no directory {path.parent}") from None
    except IsADirectoryError:
        raise UsageError(f"cannot write {target}: it is a directory") from None
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: str, error: OSError) -> DynqError:
    return DynqError(f"cannot write {target}: {error.strerror or error}")


def _begin(path: Path) -> tuple[int, str]:
    """A file to write to, and its name where it will be renamed."""
    if path.is_dir():
        raise IsADirectoryError
    if path.exists() and not path.is_file():
        return os.open(path, os.O_WRONLY), ""
    stem = "." + os.fsdecode(os.fsencode(path.name)[:_LONGEST]) + "."
    _remove_stale(path.parent, stem, os.unlink)
    import tempfile  # which `count` need not wait for

    while True:
        handle, temporary = tempfile.mkstemp(prefix=stem, suffix=TEMPORARY, dir=path.parent)
        _lock(handle, wait=True)
        # Between the two lines above it looked like one left behind, and somebody may have removed it.
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)


def _begin_directory(parent: Path, stem: str) -> tuple[int, Path]:
    """The handle that holds a new directory, and its path."""
    import tempfile

    while True:
        made = Path(tempfile.mkdtemp(prefix=stem, suffix=TEMPORARY, dir=parent))
        # Before it is held it looks like one left behind, and somebody may have removed it.
        with suppress(FileNotFoundError):
            handle = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
            _lock(handle, wait=True)  # goes on without it where the file system knows no locks
            if made.exists():
                return handle, made
            os.close(handle)


def _finish(handle: int, temporary: str, path: Path) -> None:
    os.fchmod(handle, stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask())
    os.fsync(handle)
    os.replace(temporary, path)
    sync_directory(path.parent)


def _remove_stale(directory: Path, stem: str, remove: Callable[[Path], object]) -> None:
    """Remove what killed writers of the same name have left."""
    left = re.compile(re.escape(stem) + _RANDOM + re.escape(TEMPORARY))
    for name in os.listdir(directory):
        if not left.fullmatch(name):
            continue
        with suppress(OSError):  # gone meanwhile, or not ours: nothing that could hinder us
            handle = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if _lock(handle, wait=False):
                    remove(directory / name)
            finally:
                os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Hold a file until it is closed. False if another process does, or where the file system knows no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
