"""Which plans this engine keeps: view trees of equi-joins. Everything else is refused in one sentence."""

from __future__ import annotations

from dynq_cli.plan.plan import AnyPlan, Plan, UnionPlan


def refusal_of(plan: AnyPlan) -> str:
    """Empty if the engine keeps the plan, else why it does not."""
    if plan.refusal:
        return plan.refusal
    if isinstance(plan, UnionPlan):
        return "unions are explained but not kept yet"
    return _of_conjunctive(plan)


def _of_conjunctive(plan: Plan) -> str:
    query = plan.query
    if query.views or any(a.mode != "join" for a in query.atoms):
        return "subqueries are explained but not kept yet"
    if query.grouped:
        return "GROUP BY and aggregates are explained but not kept yet"
    if query.comparisons:
        return f"{query.comparisons[0]} compares different atoms: inequality joins are explained but not kept yet"
    if plan.strategy != "view-tree":
        return f"the query is {plan.classification.name} and needs {plan.strategy}, which is explained but not kept yet"
    return ""
