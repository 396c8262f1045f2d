"""The verbs of a directory with a state of shards, by name (`storage/kinds`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dynq_cli.storage.shards.copies import copy_shards
from dynq_cli.storage.shards.facts import check_shards, facts_of_shards, prune_shards
from dynq_cli.storage.shards.state import ShardedState

VERBS: Mapping[str, Callable[..., Any]] = {
    "open": ShardedState,
    "facts_of": facts_of_shards,
    "check": check_shards,
    "prune": prune_shards,
    "copy": copy_shards,
}
