"""What a process that is the `dynq` command does without, to begin sooner and take less memory.

Arrow imports pandas, where that is installed, when it first makes an array from Python values: a third of a second and
45 MB for nothing, since no command uses it but `extract`, whose Spark does. And the allocator that Arrow brings along
keeps the pages of many times what is in use at any moment (30 MB for batches of 4); the system's gives them back.

A program that uses dynq as a library keeps its own settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _WithoutPandas:
    """As if pandas were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def begin_small(arguments: Sequence[str]) -> None:
    """To be called before Arrow is imported, with the arguments of the command."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "extract" not in arguments:
        sys.meta_path.insert(0, _WithoutPandas())
