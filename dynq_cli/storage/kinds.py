"""Kinds of states: one engine (`CURRENT`), or shards (`SHARDS`), whose verbs are a registry entry.

A verb of a directory asks `verbs_of` first: so modules about one engine know nothing about shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from dynq_cli.storage.layout import SHARDS

_VERBS = "dynq_cli.storage.shards.verbs"


def verbs_of(directory: Path) -> Mapping[str, Callable[..., Any]] | None:
    """Return the verbs for a state of shards, by name; None if the directory has none."""
    if not (directory / SHARDS).exists():
        return None
    found: Mapping[str, Callable[..., Any]] = import_module(_VERBS).VERBS
    return found
