"""Unions: each member has its own plan.

Whether a table holds their rows, or they are read from the members (`lower.inclusion_exclusion`), the program says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynq_cli.plan.plan import AnyPlan, UnionPlan
from dynq_cli.plan.testing import why_untestable
from dynq_cli.query.classify import Classification
from dynq_cli.query.normal_form import UnionQuery


def plan_union(query: UnionQuery, members: Sequence[AnyPlan]) -> UnionPlan:
    classes = _classes(members)
    made = UnionPlan(query, tuple(members), classes)
    refused = why_untestable(made) if query.keep == "test" else ""
    return replace(made, refusal=refused)


def _classes(members: Sequence[AnyPlan]) -> Classification:
    """A union is in a class if every member is; the witness is the first member's that is not."""
    several = [(m.name, m.classification) for m in members]

    def why(attribute: str) -> str:
        return next((f"{name}: {w}" for name, c in several if (w := getattr(c, attribute))), "")

    return Classification(
        q_hierarchical=all(c.q_hierarchical for _, c in several),
        t_hierarchical=all(c.t_hierarchical for _, c in several),
        free_connex=all(c.free_connex for _, c in several),
        acyclic=all(c.acyclic for _, c in several),
        not_q_hierarchical=why("not_q_hierarchical"),
        not_t_hierarchical=why("not_t_hierarchical"),
        not_free_connex=why("not_free_connex"),
        not_acyclic=why("not_acyclic"),
    )
