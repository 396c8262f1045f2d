"""The bounds that a query's `require:` asks for, against those that its plan promises.

    unmet(plan, spec)            a text with the witness for each bound that is promised worse
    check_required(plans, spec)  RejectedError with all of them, each with its place

A promise is a sum of terms, `O(n + |pairs|)`, and so is a requirement. Every term of the promise has to be one of the
requirement's, or a power of n no larger than its largest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dynq_cli.errors import RejectedError
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.plan import AnyPlan
from dynq_cli.plan.program_cost import ProgramCost, program_cost
from dynq_cli.spec.model import Requirement, Spec

_POWER = re.compile(r"(?:(1)|(n)(?:\^?([0-9]+(?:\.[0-9]+)?))?(?: ?(log n))?|(log n))")
Power = tuple[float, int]


def power_of(term: str) -> Power | None:
    """The powers of n and of log n in a term; None for another term.

    >>> [power_of(term) for term in ("1", "log n", "n", "n log n", "n^1.5", "|Δ|")]
    [(0.0, 0), (0.0, 1), (1.0, 0), (1.0, 1), (1.5, 0), None]
    """
    found = _POWER.fullmatch(term)
    if found is None:
        return None
    one, n, exponent, times_log, log = found.groups()
    if one or log:
        return 0.0, int(bool(log))
    return float(exponent or 1) if n else 0.0, int(bool(times_log))


def holds(promised: str, required: str) -> bool:
    """Whether a bound is no worse than the required one.

    >>> holds("O(1)", "O(log n)"), holds("O(n^2)", "O(n)"), holds("O(n + |v|)", "O(n)"), holds("O(|Δ|)", "O(|Δ|)")
    (True, False, False, True)
    """
    allowed = _terms(required)
    most = max((power for term in allowed if (power := power_of(term)) is not None), default=(0.0, 0))
    return all(
        term in allowed or ((power := power_of(term)) is not None and power <= most) for term in _terms(promised)
    )


def _terms(bound: str) -> list[str]:
    return [" ".join(term.split()) for term in bound.strip()[2:-1].split("+")]


def unmet(plan: AnyPlan, spec: Spec) -> list[tuple[Requirement, str]]:
    """Return each requirement that the plan of a query of the spec does not meet: what is promised, and why."""
    query = spec.query(plan.name)
    if query is None or not query.require or plan.refusal:
        return []
    cost = program_cost(program_of(plan.query, spec), spec)
    promised = dict(cost.guarantees.items())
    found = []
    for r in query.require:
        bound = promised[r.guarantee].bound
        if not holds(bound, r.bound):
            told = f"{r.guarantee} in {r.bound} is required, and {bound} promised"
            found.append((r, f"{told}: {_reasons(plan, cost, r)}"))
    return found


def check_required(plans: Iterable[AnyPlan], spec: Spec) -> None:
    """Raise RejectedError if the plan of a query of the spec promises less than its `require:`."""
    found = [f"{r.place}: query {plan.name}: {text}" for plan in plans for r, text in unmet(plan, spec)]
    if found:
        hint = "  hint: `dynq explain SPEC` says under `cheaper` which edits help; or require less"
        raise RejectedError("\n".join([*found, hint]))


def _reasons(plan: AnyPlan, cost: ProgramCost, required: Requirement) -> str:
    """The costliest changes for `update`, else the promise in words; and what breaks the next better class."""
    guarantee = dict(cost.guarantees.items())[required.guarantee]
    heavy = [str(c) for c in cost.changes if c.bound == guarantee.bound] if required.guarantee == "update" else []
    return "; ".join([*(heavy or [guarantee.meaning]), *filter(None, [plan.classification.witness])])
