"""One writer at a time: a lock that the kernel frees when its holder dies.

The file holds the writer's process id while it writes and is empty otherwise. Readers take no lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynq_cli.errors import LockedError
from dynq_cli.storage.layout import LOCK


@contextmanager
def writing_to(directory: Path) -> Iterator[None]:
    """Be the only writer; LockedError, at once, if there is another."""
    file = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise LockedError(
                f"{directory} is being written to by another process ({holder}); nothing was changed\n"
                "  hint: run it again when that one has ended"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(file, 0)
    finally:
        os.close(file)
