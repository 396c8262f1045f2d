"""A plan of shards as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynq_cli.plan.shards.model import Group, Merge, Placed, ShardPlan

_MERGES: dict[Merge, str] = {
    "none": "nothing: every row is in one shard",
    "copies": "the copies of a row, which several shards may have",
    "distinct": "rows that several shards have are read once; count walks them",
    "groups": "the parts of a group: counts and sums add, of extremes the least or greatest stays",
    "whole": "nothing: one shard has all of it",
}


def shards_text(plan: ShardPlan) -> str:
    """Who is split by what, where rows go and how often, and what reading merges."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: ShardPlan) -> Iterator[str]:
    sizes = sum(group.size for group in plan.groups)
    yield f"{plan.shards} shards asked for; {sizes} in {len(plan.groups)} group{'s' * (len(plan.groups) != 1)}"
    for group in plan.groups:
        yield f"group {group.name}: {_size(group)}"
        for placed in group.queries:
            yield f"  query {placed.query}: {_split(group, placed)}"
            yield f"    reading merges {_MERGES[placed.merge]}"
        for relation in group.relations:
            yield f"  rows of {relation}: {_goes(group, relation)}"
    repeated = {name: plan.replication(name) for name in plan.homes if plan.replication(name) > 1}
    stored = ", ".join(f"{name} {times}×" for name, times in repeated.items())
    yield f"stored more than once: {stored or 'nothing'}"


def _size(group: Group) -> str:
    if group.size == 1:
        return "1 shard"
    grid = " × ".join(map(str, group.shares))
    return f"{group.size} shards" + (f", a grid of {grid}" if len(group.shares) > 1 else "")


def _split(group: Group, placed: Placed) -> str:
    if placed.merge == "whole":
        return f"whole, since {placed.reason}" if placed.reason else "whole"
    shares = ", ".join(f"{v} (share {n})" for v, n in zip(placed.variables, group.shares, strict=True))
    return f"split by {shares}"


def _goes(group: Group, relation: str) -> str:
    columns = [column for column in group.relations[relation].columns if column is not None]
    times = group.replication(relation)
    if not columns:
        return "in the one shard" if group.size == 1 else f"in every shard, {times}×"
    by = " and ".join(dict.fromkeys(columns))
    return f"by the hash of {by}, in {times} shard{'s' if times != 1 else ''} each"


def shards_json(plan: ShardPlan) -> dict[str, Any]:
    """The same facts: `replication` is how many shards have a row of the relation."""
    return {
        "shards": plan.shards,
        "groups": [
            {
                "name": group.name,
                "shards": group.size,
                "shares": list(group.shares),
                "queries": {
                    p.query: {"variables": list(p.variables), "merges": p.merge, "reason": p.reason}
                    for p in group.queries
                },
                "relations": {
                    name: {"columns": list(placement.columns), "replication": group.replication(name)}
                    for name, placement in group.relations.items()
                },
            }
            for group in plan.groups
        ],
        "replication": {name: plan.replication(name) for name in plan.homes},
    }
