"""The plan of a state of shards.

A group is a grid of shards, one dimension per shard variable (HyperCube). A row goes to the shards that agree with the
hashes of its columns, and to all of them along the other dimensions. Each shard keeps the queries of its group over the
rows it has.

Three rows by hand: R(x, y) and S(y, z) joined by y, in two shards, where 1 and 3 hash to shard 0 and 2 to shard 1.
R(7, 1) and S(1, 5) meet in shard 0, R(7, 2) stays alone in shard 1. The counts, 1 and 0, add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Literal

from dynq_cli.records import record

# What reading has to do with the results of the shards of a group:
#   none      a row is in one shard: counts add, rows are concatenated or merged by their order
#   copies    copies of a row may lie in several shards: they are added
#   distinct  a row may be in several shards: it is read once
#   groups    parts of a group lie in several shards: their aggregates are combined
#   whole     there is one shard
Merge = Literal["none", "copies", "distinct", "groups", "whole"]


@record(frozen=True)
class Placement:
    """The column whose hash is a row's coordinate in each dimension; None: the row goes to every coordinate."""

    columns: tuple[str | None, ...]


@record(frozen=True)
class Placed:
    """A query in its group: its shard variables, what reading merges, and why it could not be split, if so.

    Of combined groups, `functions` has the aggregate of each output column, empty for a key.
    """

    query: str
    variables: tuple[str, ...]
    merge: Merge
    reason: str = ""
    functions: tuple[str, ...] = ()


@record(frozen=True)
class Group:
    """Queries that share their rows: `shares` has the shards along each dimension. `extra` are queries that some of
    them read by name; they are kept in the group, and read elsewhere."""

    name: str
    shares: tuple[int, ...]
    queries: tuple[Placed, ...]
    relations: Mapping[str, Placement]
    extra: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many shards the group has."""
        return prod(self.shares)

    def replication(self, relation: str) -> int:
        """In how many shards of the group a row of the relation is."""
        placement = self.relations[relation]
        return prod(n for n, column in zip(self.shares, placement.columns, strict=True) if column is None)


@record(frozen=True)
class ShardPlan:
    """All groups. `homes` names the group of each relation in which its rows are counted and dumped."""

    shards: int
    groups: tuple[Group, ...]
    homes: Mapping[str, str]

    def group_of(self, query: str) -> tuple[Group, Placed]:
        """The group that a query is read from."""
        return next((g, p) for g in self.groups for p in g.queries if p.query == query)

    def replication(self, relation: str) -> int:
        """How often a row of the relation is stored, over all groups."""
        return sum(g.replication(relation) for g in self.groups if relation in g.relations)
