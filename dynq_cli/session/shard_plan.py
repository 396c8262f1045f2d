"""Plan shards for a spec file, or for the rows that a state has."""

from __future__ import annotations

import os
from pathlib import Path

from dynq_cli.errors import UsageError
from dynq_cli.plan.shards import ShardPlan, plan_shards
from dynq_cli.query.compile import compile_file, compile_spec

MOST = 1024


def check_shards(shards: int) -> None:
    """UsageError unless this is a number of shards."""
    if not 1 <= shards <= MOST:
        raise UsageError(f"--shards {shards}: give a number from 1 to {MOST:,}")


def shards_of_spec(path: str | os.PathLike[str], shards: int) -> ShardPlan:
    """Plan shards for a spec file; `changes:` stands for the sizes of relations. SpecError has all its problems."""
    check_shards(shards)
    spec, queries = compile_file(path)
    return plan_shards(spec, queries, shards)


def shards_of_state(path: str | os.PathLike[str], shards: int) -> ShardPlan:
    """Plan shards for the spec of a state, and the rows of its relations; a state of shards may have others."""
    from dynq_cli.storage.facts import facts_of
    from dynq_cli.storage.state import open

    check_shards(shards)
    spec, tables = open(path).spec, facts_of(Path(path)).tables
    sizes = tables.relations if tables is not None else {}
    rows = {name: size.copies for name, size in sizes.items()}
    return plan_shards(spec, compile_spec(spec), shards, rows)
