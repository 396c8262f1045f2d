"""What a query over views promises: its views' promises come on top of its own.

A view of the spec's query is kept by a plan of its own, and its rows are the leaves of an atom here:
they are stored, and each one that comes or goes is a change here.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynq_cli.plan.bounds import times, total
from dynq_cli.plan.plan import AnyPlan, Guarantee, Guarantees, UpdateCost
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, Query


def with_views(
    own: Guarantees, atoms: Sequence[Atom], updates: Sequence[UpdateCost], views: Sequence[tuple[str, AnyPlan]]
) -> Guarantees:
    """`own` is what the tree promises if the rows of views came from outside."""
    if not views:
        return own
    update, space = [own.update.bound], [own.space.bound]
    for name, view in views:
        update.append(view.guarantees.update.bound)
        space.append(view.guarantees.space.bound)
        if not _is_one_row(view.query):
            here = total(u.bound for a, u in zip(atoms, updates, strict=True) if a.source == name)
            update.append(times(f"|Δ{name}|", here))
        if not _is_linear(view.query):
            space.append(f"O(|{name}|)")
    listed = " and ".join(name for name, _ in views)
    changed = f"{own.update.meaning}; a row that comes or goes in {listed} is a change here"
    stored = f"{own.space.meaning}; the rows of {listed} are stored"
    return Guarantees(Guarantee(total(update), changed), own.delay, own.count, own.jth, Guarantee(total(space), stored))


def _is_one_row(query: Query) -> bool:
    return isinstance(query, ConjunctiveQuery) and query.one_row


def _is_linear(query: Query) -> bool:
    """Whether a result has no more distinct rows than the base tables together."""
    if not isinstance(query, ConjunctiveQuery):
        return all(_is_linear(m) for m in query.members)
    large = {v.name for v in query.views if not _is_linear(v.query)}
    holding = [a for a in query.atoms if a.mode == "join" and a.variables >= frozenset(query.head)]
    return not query.head or any(a.source not in large for a in holding)
