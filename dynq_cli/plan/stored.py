"""Describe what a program stores besides the base tables, and how large it is."""

from __future__ import annotations

from dynq_cli.plan.change_cost import Costs
from dynq_cli.plan.program import Cycle, Derived, Program, Tree, passed_rows
from dynq_cli.plan.program_cost import stored_result
from dynq_cli.query.aggregates import basic
from dynq_cli.spec.model import Spec


def stored(program: Program, spec: Spec) -> str:
    """The views, the relations between them, and whether the result is among them."""
    costs = Costs(program, spec)
    passed = passed_rows(program.steps)
    derived = {s.name: s for s in program.steps if isinstance(s, Derived) and s.name not in passed}
    seen = [
        a.source
        for s in program.steps
        if isinstance(s, Tree) and s.name not in costs.passages
        for a in s.plan.query.atoms
        if spec.relation(a.source) is not None
    ]
    views = list(dict.fromkeys(seen))
    result = stored_result(program)
    said = [f"its result, {rows_of(costs, result)}"] if result is not None else []
    if views:
        said.append(f"views of {_listed(views)}, no larger than the tables")
    cycles = [s for s in program.steps if isinstance(s, Cycle)]
    if ends := list(dict.fromkeys(a.source for step in cycles for a in step.query.atoms)):
        said.append(f"the rows of {_listed(ends)} in lists by their ends, no larger than the tables")
    if any(step.pairs for step in cycles):
        said.append("sums over pairs of values with many rows, at most a few times the rows")
    said += [f"{name}, {rows_of(costs, step)}" for name, step in derived.items() if step is not result]
    if result is None:
        said.append("not the result")
    return "; ".join(said)


def rows_of(costs: Costs, step: Derived) -> str:
    measures = step.groups.measures if step.groups is not None else ()
    looked_at = [
        f"{m.aggregate.function.replace('_', ' ').upper()}({', '.join(m.values)})"
        for m in measures
        if m.values and basic(m.aggregate.function).state in ("ordered", "values")
    ]
    return _sized(costs, step) + (f" with the distinct values of {_listed(looked_at)}" if looked_at else "")


def _sized(costs: Costs, step: Derived) -> str:
    if step.partitions is not None and step.partitions.limit is not None:
        places = step.partitions
        per = f" per {', '.join(places.keys)}" if places.keys else ""
        rows = f"{places.limit} rows" if places.limit != 1 else "1 row"
        return f"at most {rows}{per}, beside all rows that they are chosen from, in order"
    if step.partitions is not None:
        return f"one row per {', '.join(c.name for c in step.columns)}, and as many to compute them from, in order"
    if step.groups is not None:
        keys = step.groups.keys
        if not keys:
            return "one row"
        what = f"one row per {', '.join(keys)}"
    else:
        what = f"one row per {', '.join(c.name for c in step.columns)}"
    exponent = costs.exponents[step.name]
    origins = costs.origins[step.name]
    names = " ⋈ ".join(origins if len(origins) > 1 else origins * exponent)  # a relation may be joined with itself
    return what if exponent <= 1 else f"{what}, at most as many as {names} has"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
