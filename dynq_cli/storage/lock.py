"""One writer at a time: locks that the kernel frees when their holder dies.

The file holds the process id of the holder while there is one and is empty otherwise. Readers take no lock.
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
    """Be the only writer; LockedError, at once, if there is another."""
    return holding(directory / LOCK, f"{directory} is being written to by another process")


@contextmanager
def holding(path: Path, busy: str) -> Iterator[None]:
    """Be the only one who holds the lock of a file; LockedError, at once, that says `busy`, if another one does."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise LockedError(
                f"{busy} ({holder}); nothing was changed\n  hint: run it again when that one has ended"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(file, 0)
    finally:
        os.close(file)
