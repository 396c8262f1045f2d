"""The passes of the lowering in their order, and the goals that each is run for; `partial_program` names the goals."""

from __future__ import annotations

from dynq_cli.plan.lower.align_types import align_types
from dynq_cli.plan.lower.break_cycles import break_cycles
from dynq_cli.plan.lower.choose_tree import choose_tree
from dynq_cli.plan.lower.decorrelate_subqueries import decorrelate_subqueries
from dynq_cli.plan.lower.drop_unused_columns import drop_unused_columns
from dynq_cli.plan.lower.feed_by_subtraction import feed_by_subtraction
from dynq_cli.plan.lower.feed_rows import feed_rows
from dynq_cli.plan.lower.group_by import group_by
from dynq_cli.plan.lower.guard_subqueries import guard_subqueries
from dynq_cli.plan.lower.inclusion_exclusion import inclusion_exclusion
from dynq_cli.plan.lower.keep_lookups import keep_lookups
from dynq_cli.plan.lower.keep_ranges import keep_ranges
from dynq_cli.plan.lower.materialise_views import materialise_views
from dynq_cli.plan.lower.minimise import minimise
from dynq_cli.plan.lower.open_groups import open_groups
from dynq_cli.plan.lower.order_by import order_by
from dynq_cli.plan.lower.partial_program import Goal, Pass
from dynq_cli.plan.lower.push_down_aggregates import push_down_aggregates
from dynq_cli.plan.lower.push_down_filters import push_down_filters
from dynq_cli.plan.lower.read_by_subtraction import read_by_subtraction
from dynq_cli.plan.lower.split_groups import split_groups
from dynq_cli.plan.lower.store_result import store_result
from dynq_cli.plan.lower.store_streamed_rows import store_streamed_rows
from dynq_cli.plan.lower.store_union import store_union
from dynq_cli.plan.lower.sum_triangles import sum_triangles
from dynq_cli.plan.lower.type_columns import type_columns

_ALL: tuple[Goal, ...] = ("result", "typed", "distinct", "joins", "groups", "feeds", "stream")
_TREES: tuple[Goal, ...] = ("result", "typed", "distinct")
_FEEDS: tuple[Goal, ...] = ("groups", "feeds", "stream")

PASSES: tuple[Pass, ...] = (
    # The result of several trees together, stored nowhere.
    Pass(keep_lookups, ("result",)),
    Pass(inclusion_exclusion, ("result",)),
    Pass(read_by_subtraction, ("result",)),
    # Unions and groups become relations of their own.
    Pass(type_columns, ("typed",)),
    Pass(store_union, ("result", "typed")),
    Pass(open_groups, ("result",)),
    Pass(split_groups, ("result",)),
    Pass(group_by, ("result", "typed")),
    # Derived tables and subqueries become relations: joins and comparisons are left.
    Pass(guard_subqueries, _ALL),
    Pass(minimise, _ALL),
    Pass(drop_unused_columns, _ALL),
    Pass(materialise_views, _ALL),
    Pass(decorrelate_subqueries, _ALL),
    Pass(push_down_filters, _ALL),
    # Comparisons stay on the edges of one tree, or atoms are joined until one tree is left.
    Pass(sum_triangles, ("groups",)),
    Pass(push_down_aggregates, ("groups",)),
    Pass(feed_by_subtraction, ("groups", "feeds")),
    Pass(keep_ranges, (*_TREES, *_FEEDS)),
    Pass(store_streamed_rows, _TREES),
    Pass(break_cycles, (*_TREES, *_FEEDS)),
    # The tree.
    Pass(align_types, _FEEDS),
    Pass(feed_rows, _FEEDS),
    Pass(store_result, _TREES),
    Pass(order_by, ("result",)),
    Pass(choose_tree, ("result",)),
)
