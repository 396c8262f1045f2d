"""Shards: where the rows of each relation go, so that every result row is made in exactly one shard.

model     the plan: groups of shards, the placement of each relation, what reading merges
demand    the placements under which a query can be split by a variable
choose    the cheapest placement of each query, and queries that share their rows
explain   the plan as text and as JSON
"""

from __future__ import annotations

from dynq_cli.plan.shards.choose import plan_shards as plan_shards
from dynq_cli.plan.shards.model import Group as Group
from dynq_cli.plan.shards.model import Placed as Placed
from dynq_cli.plan.shards.model import Placement as Placement
from dynq_cli.plan.shards.model import ShardPlan as ShardPlan
