"""Which plans this engine keeps; the others are refused in one sentence."""

from __future__ import annotations

from dynq_cli.plan.plan import AnyPlan, Plan


def refusal_of(plan: AnyPlan) -> str:
    """Empty if the engine keeps the plan, else why it does not."""
    if plan.refusal:
        return plan.refusal
    if isinstance(plan, Plan) and plan.order:
        return "order_by is explained but not kept yet"
    return ""
