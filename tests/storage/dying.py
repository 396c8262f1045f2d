"""Let a process die between two steps that touch files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

# The calls of a commit.
STEPS = ("fsync", "fdatasync", "pwrite", "ftruncate", "replace", "unlink", "posix_fallocate")


class Died(BaseException):
    """The end of the process, as far as files are concerned."""


def dying_after(patch: pytest.MonkeyPatch, steps: int, calls: Sequence[str]) -> None:
    """Let the process die instead of making one of these calls of `os` once more after so many of them."""
    left = steps

    def wrapped(call: str) -> Any:
        real = getattr(os, call)

        def counted(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Died
            return real(*args, **options)

        return counted

    for call in calls:
        patch.setattr(os, call, wrapped(call))
