"""Every pass that changed something while a query was lowered, with the query before and after it, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from dynq_cli.plan.lower import PASSES
from dynq_cli.plan.lower.partial_program import PartialProgram, Pass, Run
from dynq_cli.plan.program import Cycle, Derived, Feed, Lookups, Step, Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.query.normal_form import Atom, Query, UnionQuery
from dynq_cli.spec.model import Keep, QuerySpec, Spec, Text


@dataclass(frozen=True)
class Change:
    """What a pass did: the query that it got and the one that it left, and the steps that it added."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    steps: tuple[str, ...]

    def __str__(self) -> str:
        """Lines that a docstring shows."""
        return "\n".join(_lines(self))


def trace(text: str, spec: Spec, keep: Keep = "all") -> list[Change]:
    """The changes that passes made, in the order in which they ended: those for inner queries come first."""
    language = "sql" if text.startswith("SELECT") else "rule"
    query = compile_query(spec, QuerySpec("q", language, (Text(text, "spec.yaml", ((0, 1, 1),)),), keep=keep))
    changes: list[Change] = []
    passes = tuple(replace(each, rewrite=_recorded(each, changes)) for each in PASSES)
    left, _ = PartialProgram(query.name, spec, None, passes).lower(query, Run("result"))
    assert left is None
    return changes


def _recorded(each: Pass, changes: list[Change]) -> Any:
    @wraps(each.rewrite)
    def rewrite(query: Query, program: PartialProgram) -> tuple[Query | None, PartialProgram]:
        left, made = each.rewrite(query, program)
        if left != query or made.steps != program.steps:
            steps = [*map(_step, made.steps[len(program.steps) :]), *_fed(made.run)]
            changes.append(Change(each.name, tuple(_query(query)), tuple(_query(left)), tuple(steps)))
        return left, made

    return rewrite


def _lines(change: Change) -> Iterator[str]:
    for label, lines in (("before", change.before), ("after", change.after), ("steps", change.steps)):
        for line in lines:
            yield f"    {label:<9}{line}"
            label = ""


def _query(query: Query | None) -> Iterator[str]:
    if query is None:
        return
    if isinstance(query, UnionQuery):
        yield str(query)
        for member in query.members:
            yield from _query(member)
        return
    for view in query.views:
        yield from _query(view.query)
    # As the query shows itself, with filters and HAVING.
    inside = [*query.head, *(f"{a.name} = {a.function}({', '.join(a.variables) or '…'})" for a in query.aggregates)]
    body = ", ".join([*map(_atom, query.atoms), *map(str, query.comparisons)])
    columns = [f"{c.name} = {c.source}" for c in query.columns if c.kind == "expression"]
    where = [f"having {query.having}"] if query.having else []
    where += [f"order by {', '.join(map(str, query.order))}"] if query.order else []
    yield " ".join([f"{query.name}({', '.join([*inside, *columns])}) :- {body}", *where])


def _atom(atom: Atom) -> str:
    return " ".join([str(atom), *(["where", " and ".join(map(str, atom.filters))] if atom.filters else [])])


def _step(step: Step) -> str:
    if isinstance(step, Tree):
        (line,) = _query(step.plan.query)
        return f"tree {line}"
    if isinstance(step, Cycle):
        (line,) = _query(step.query)
        return f"cycle {line}"
    if isinstance(step, Derived):
        fed = ", ".join(map(_feed, step.feeds))
        if step.groups is None:
            return f"relation {step.name}({', '.join(c.name for c in step.columns)}): rows of {fed}"
        made = ", ".join(f"{m.aggregate.name} = {m.aggregate.function}" for m in step.groups.measures)
        per = f" per {', '.join(step.groups.keys)}" if step.groups.keys else ""
        return f"relation {step.name}: {made}{per}, from rows of {fed}"
    if isinstance(step, Lookups):
        inside = [
            "".join([" and ".join([*(t.tree for t in a.lookups), *map(str, a.where)])]) for a in step.alternatives
        ]
        return f"result {step.name}: tested in {', or in '.join(inside)}"
    counted = "".join(f" {'+' if t.distinct > 0 else '-'} |{t.tree}|" for t in step.terms)
    where = f" where {' and '.join(map(str, step.where))}" if step.where else ""
    return f"result {step.name}: rows of {', '.join(m.tree for m in step.members)}{where}, count{counted}"


def _fed(run: Run) -> Iterator[str]:
    if run.feeds:
        yield f"fed by {', '.join(map(_feed, run.feeds))}"


def _feed(feed: Feed) -> str:
    where = f" where {' and '.join(map(str, feed.where))}" if feed.where else ""
    return f"{'+' if feed.sign > 0 else '-'}{feed.tree}{where}"
