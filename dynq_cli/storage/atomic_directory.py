"""A directory that appears whole or not at all.

It is filled beside its place under a name of its own, and renamed. Whoever fails on the way leaves nothing; whoever is
killed leaves a `NAME.xxxxxxxx.tmp`, which the next one who makes the same directory removes. The one who fills such a
directory holds a lock on it, so that nobody removes what is still being filled.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dynq_cli.storage.layout import TEMPORARY, sync_directory

_RANDOM = r"[a-z0-9_]{8}"


@contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """A directory to fill, put under its name, durably, when the block ends without an error.

    OSError if there is one of that name by then which is not empty.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(directory)
    made, held = _begin(directory)
    try:
        made.chmod(0o777 & ~_umask())
        yield made
        made.replace(directory)
        sync_directory(directory.parent)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    finally:
        os.close(held)


def _begin(directory: Path) -> tuple[Path, int]:
    """A new directory and the handle that holds it."""
    while True:
        made = tempfile.mkdtemp(prefix=f"{directory.name}.", suffix=TEMPORARY, dir=directory.parent)
        # Before it is held it looks like one left behind, and somebody may have removed it.
        with suppress(FileNotFoundError):
            held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
            if _is_free(held) and os.path.exists(made):
                return Path(made), held
            os.close(held)


def _remove_stale(directory: Path) -> None:
    """Remove what those who were killed have left."""
    left = re.compile(re.escape(f"{directory.name}.") + _RANDOM + re.escape(TEMPORARY))
    for entry in os.scandir(directory.parent):
        if not left.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
            continue
        with suppress(OSError):  # gone meanwhile, or not ours: nothing that could hinder us
            held = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _is_free(held):
                    shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(held)


def _is_free(handle: int) -> bool:
    """Hold a directory until the handle is closed; False if another process does."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
