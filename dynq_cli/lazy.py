"""Modules that are loaded when an attribute of them is first used.

- The modules of short commands name typer and the shared options in annotations alone, which Python evaluates when
  typer builds the command tree. A plain command line needs no tree (`cli.plain`).
- Libraries for one of several formats: Arrow's Parquet takes 20 ms, which other logs need not wait for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazy:
    """Stands for a module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
