"""Start the `dynq` command faster and with less memory.

If pandas is installed, Arrow imports it with the first array made from Python values: a third of a second and 45 MB.
Only `extract` needs it, through Spark. And Arrow's allocator keeps many times the memory in use (30 MB for batches of
4 MB); the system's allocator returns it.

A program that uses dynq as a library keeps its own settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _WithoutPandas:
    """An import hook that hides pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def begin_small(arguments: Sequence[str]) -> None:
    """Apply the settings. Call it before Arrow is imported, with the arguments of the command."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "extract" not in arguments:
        sys.meta_path.insert(0, _WithoutPandas())
