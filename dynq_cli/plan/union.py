"""Unions: each member has its own plan, and what they promise together where a table holds their rows.

Where the rows can be read from the members instead, the program says so (`lower.together`), and what that costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynq_cli.plan.bounds import total
from dynq_cli.plan.plan import AnyPlan, Guarantee, Guarantees, UnionPlan
from dynq_cli.query.classify import Classification
from dynq_cli.query.normal_form import UnionQuery


def plan_union(query: UnionQuery, members: Sequence[AnyPlan]) -> UnionPlan:
    classes = _classes(members)
    refusal = next((m.refusal for m in members if m.refusal), "")
    return UnionPlan(query, tuple(members), classes, _guarantees(query, members), (), refusal)


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


def _guarantees(query: UnionQuery, members: Sequence[AnyPlan]) -> Guarantees:
    fed = "each of the Δ rows that come or go in a member updates one row of the table"
    return Guarantees(
        Guarantee(
            total([*(m.guarantees.update.bound for m in members), "O(|Δ|)"]),
            f"that of the member that costs most; {fed}",
        ),
        Guarantee("O(1)", "the table is read row by row"),
        Guarantee("O(1)", "the distinct rows are kept in a table"),
        Guarantee("O(n)", "walks the table; order_by makes it O(log n)"),
        Guarantee(
            total([*(m.guarantees.space.bound for m in members), f"O(|{query.name}|)"]),
            "that of the members and of the table of distinct rows",
        ),
    )
