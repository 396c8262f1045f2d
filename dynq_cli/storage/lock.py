"""File locks that allow one writer at a time; the kernel releases them when their holder dies.

The file contains the process id of the holder, or is empty. Readers take no lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from dynq_cli.errors import LockedError
from dynq_cli.storage.layout import LOCK


def writing_to(directory: Path) -> AbstractContextManager[None]:
    """Hold the write lock of a state; LockedError at once if another process holds it."""
    return holding(directory / LOCK, f"{directory} is being written to by another process")


@contextmanager
def holding(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock of a file; LockedError at once, beginning with `busy`, if another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise LockedError(
                f"{busy} ({holder}); nothing was changed\n  hint: run the command again when that process has ended"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(file, 0)
    finally:
        os.close(file)
