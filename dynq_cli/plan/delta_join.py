"""Routes of a cyclic join: for each atom, how a changed row of it is joined with the others.

    q(…) :- R(a, b), S(b, c), T(c, a)       δR(a, b): the shorter of the lists S(b, ·) and T(·, a), each row looked up
                                            in the other

Nothing but the atoms' rows is kept, in a list per value of each end. A route binds variables level by level, as
worst-case optimal joins do: next come those that most atoms can bound, by their shortest list. For a triangle a change
costs O(min degree + |Δ|). N inserts cost O(N^1.5) in all: the sum over all edges of their smaller end's degree.

A relation that stands in several atoms changes in all of them at once. The delta is then either a sum over the sets of
atoms in which the changed row stands, the others as they were; or a sum over atoms, those before one with the change
and those after it without. The first has 2^k − 1 terms, but those of several atoms bind nearly everything, and terms
that are alike are computed once. The second has k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations

from dynq_cli.plan.program import Level, Operand, Route
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, Part

# A relation in more atoms than these is changed in one atom after the other.
MOST_AT_ONCE = 4
# What tells the rows of an atom apart: its relation, what is bound, and what filters it.
Signature = tuple[str, tuple[tuple[str, Part], ...], tuple[str, ...]]


def signature(atom: Atom) -> Signature:
    """Equal for atoms that have the same rows, each with its variables in the order of `variables_in_order`."""
    bound = tuple(sorted((b.scalar.sql, b.part) for b in atom.bindings))
    return atom.source, bound, tuple(sorted(scalar.sql for scalar in atom.filters))


def variables_in_order(atom: Atom) -> tuple[str, ...]:
    """The variables of an atom by what they are bound to."""
    return tuple(b.variable for b in sorted(atom.bindings, key=lambda b: (b.scalar.sql, b.part)))


def bound_in(query: ConjunctiveQuery) -> frozenset[str]:
    """The variables that atoms bind. Any other of the head is always 1."""
    return frozenset().union(*(a.variables for a in query.atoms))


def routes_of(query: ConjunctiveQuery, *, counts: bool = True) -> tuple[Route, ...]:
    """The routes of all atoms. If rows are counted only, those that give equal sums are one.

    Not with `counts` false: then atoms put different numbers into sums.
    """
    shown = bound_in(query) & frozenset(query.head) or not counts
    found: dict[object, Route] = {}
    for route in _all_routes(query):
        key = route if shown else _shape(query, route)
        known = found.get(key)
        found[key] = route if known is None else replace(known, times=known.times + route.times)
    return tuple(found.values())


def _all_routes(query: ConjunctiveQuery) -> Iterator[Route]:
    same: dict[Signature, list[int]] = {}
    for i, atom in enumerate(query.atoms):
        same.setdefault(signature(atom), []).append(i)
    for atoms in same.values():
        if len(atoms) <= MOST_AT_ONCE:
            for size in range(1, len(atoms) + 1):
                for changed in combinations(atoms, size):
                    yield Route(changed, _levels(query, changed, frozenset()))
        else:
            for k, one in enumerate(atoms):
                yield Route((one,), _levels(query, (one,), frozenset(atoms[:k])))


def _levels(query: ConjunctiveQuery, changed: Sequence[int], new: frozenset[int]) -> tuple[Level, ...]:
    """First what the changed row binds alone, then variable by variable, then what single atoms have besides."""
    whole = [a.variables for a in query.atoms]
    has = [frozenset(v for v in each if sum(v in other for other in whole) > 1) for each in whole]
    bound = frozenset().union(*(whole[i] for i in changed))
    left = [i for i in range(len(has)) if i not in changed]
    own = [i for i in left if not whole[i] <= has[i]]
    levels = []
    added: frozenset[str] = frozenset()
    while True:
        bound |= added
        here = [i for i in left if has[i] <= bound]
        if here or added:
            listed = [i for i in here if added and added < has[i]] or [i for i in here if added and added == has[i]]
            names = tuple(v.name for v in query.variables if v.name in added)
            levels.append(Level(names, tuple(Operand(i, i in listed, i in new) for i in here)))
        left = [i for i in left if i not in here]
        if not left:
            break
        added = _next(query, has, bound, left)
    for i in own:
        names = tuple(v.name for v in query.variables if v.name in whole[i] - has[i])
        levels.append(Level(names, (Operand(i, True, i in new),)))
    return tuple(levels)


def _next(
    query: ConjunctiveQuery, has: Sequence[frozenset[str]], bound: frozenset[str], left: Sequence[int]
) -> frozenset[str]:
    """The variables that the next list binds: as few as can be, of as many atoms as can be."""
    rank = {v.name: i for i, v in enumerate(query.variables)}
    meets = [i for i in left if has[i] & bound] or list(left)
    several = {has[i] - bound for i in meets}

    def order(added: frozenset[str]) -> tuple[int, int, list[int]]:
        lists = sum(has[i] - bound == added and bool(has[i] & bound) for i in left)
        return len(added), -lists, sorted(rank[v] for v in added)

    return min(several, key=order)


def _shape(query: ConjunctiveQuery, route: Route) -> object:
    """What a route does, variables by number: the same for routes that differ in names alone."""
    return min(_numbered(query, order, route.levels) for order in permutations(route.changed))


def _numbered(query: ConjunctiveQuery, changed: Sequence[int], levels: Sequence[Level]) -> tuple[object, ...]:
    numbers: dict[str, int] = {}

    def slots(atom: int) -> tuple[int, ...]:
        return tuple(numbers.setdefault(v, len(numbers)) for v in variables_in_order(query.atoms[atom]))

    start = [repr((signature(query.atoms[i]), slots(i))) for i in changed]
    steps = []
    for level in levels:
        for variable in level.variables:
            numbers.setdefault(variable, len(numbers))
        made = (repr((signature(query.atoms[e.atom]), slots(e.atom), e.scans, e.is_new)) for e in level.operands)
        steps.append(tuple(sorted(made)))
    return (*start, *steps)
