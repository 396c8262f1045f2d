"""Quantifiers over values that no atom ties to the other variables, counted as all values less the near ones.

    exists y: T(y) and not E(x, y)      |T| - |{y: T(y) and E(x, y)}| >= 1
    forall y: T(y) -> E(x, y)           |T| - |{y: T(y) and E(x, y)}| = 0

The near rows are those that what is denied ties to the other variables: as many as its atoms have, never a product. A
row of other values has near rows or none, so `branches` makes two alternatives of each `Far`. Where more than one
denial would be needed to tie all variables, they are those of an atom around the quantifier; without one, the
quantifier stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dynq_cli.query.formula.branches import Branch, branches, existing, formula_of
from dynq_cli.query.formula.resolve import (
    Conjunction,
    Disjunction,
    Far,
    Literal,
    Normal,
    Some,
    Tally,
    free_variables,
    negated,
)
from dynq_cli.query.formula.syntax import Count
from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.rule.syntax import Comparison

_AT_LEAST_ONE, _NONE = Count("at_least", 1), Count("exactly", 0)


def near_and_far(formula: Normal, guards: tuple[Literal, ...] = ()) -> Normal:
    """The same formula, with `Far` in place of the quantifiers that can be counted so.

    `guards` are atoms that hold around it: near rows are counted for values alone that satisfy them.
    """
    if isinstance(formula, Conjunction | Disjunction):
        if isinstance(formula, Conjunction):
            guards += tuple(part for part in formula.parts if isinstance(part, Literal) and part.positive)
        return type(formula)(tuple(near_and_far(part, guards) for part in formula.parts))
    if not isinstance(formula, Some | Tally):
        return formula
    formula = replace(formula, body=near_and_far(formula.body, guards))
    if _has_far(formula.body):
        return formula
    try:
        found = _some(formula, guards) if isinstance(formula, Some) else _tally(formula, guards)
    except QueryProblems:
        # Too many alternatives, which is said where they are needed.
        return formula
    return formula if found is None else found


def _has_far(formula: Normal) -> bool:
    if isinstance(formula, Some | Tally):
        return _has_far(formula.body)
    return isinstance(formula, Far) or any(map(_has_far, getattr(formula, "parts", ())))


@dataclass(frozen=True)
class _Split:
    """A conjunction as `near` parts and some `fars`; `bound` are the variables that the near parts are about."""

    near: list[Normal]
    bound: tuple[str, ...]
    fars: list[Far]


def _some(formula: Some, guards: tuple[Literal, ...]) -> Normal | None:
    free = free_variables(formula)
    parts: list[Normal] = []
    has_far = False
    for branch in existing(replace(formula, positive=True)):
        split = _split(branch, free, guards)
        has_far |= bool(split.fars)
        inside = [*split.near, *split.fars]
        whole = inside[0] if len(inside) == 1 else Conjunction(tuple(inside))
        parts.append(Some(split.bound, whole) if split.bound else whole)
    if not has_far:
        return None
    if not formula.positive:
        parts = [_none(part) for part in parts]
    if len(parts) == 1:
        return parts[0]
    return (Disjunction if formula.positive else Conjunction)(tuple(parts))


def _none(formula: Normal) -> Normal:
    """The denial of an alternative: no far row is counted as their number, which is looked up."""
    if isinstance(formula, Far):
        return replace(formula, count=_NONE)
    if isinstance(formula, Conjunction):
        return Disjunction(tuple(map(_none, formula.parts)))
    return negated(formula)


def _tally(formula: Tally, guards: tuple[Literal, ...]) -> Normal | None:
    free, counted = free_variables(formula), (formula.variable,)
    if all(_is_tied(formula.variable, branch, free) for branch in branches(formula.body)):
        return None
    for adds in (False, True):
        found = branches(negated(formula.body) if adds else formula.body)
        if len(found) != 1:
            continue
        split = _split(found[0].with_values(counted), free, guards, counted)
        if len(split.fars) != 1 or split.bound or (adds and split.near):
            continue
        far = replace(split.fars[0], count=formula.count, positive=formula.positive, adds=adds)
        if adds:
            # All values but those of the whole satisfy the body, and so do those near.
            return replace(far, whole=negated(far.whole))
        if not split.near:
            return far
        if formula.holds(0):
            return Disjunction((far, *map(negated, split.near)))
        return Conjunction((far, *split.near))
    return None


def _is_tied(variable: str, branch: Branch, free: frozenset[str]) -> bool:
    """Whether a variable has values for given ones of the free variables, or there are none of these."""
    tied = _components([free_variables(part) for part in formula_of(branch) if not _is_link(part)])
    return not free or any(variable in each and each & free for each in tied)


def _split(branch: Branch, free: frozenset[str], guards: tuple[Literal, ...], counted: tuple[str, ...] = ()) -> _Split:
    """Take components without a free variable out of a conjunction, with what is denied between them and the others."""
    parts = formula_of(branch)
    bound = (branch.named | set(branch.ranging)) - free
    links = [part for part in parts if _is_link(part)]
    ties = [free_variables(part) for part in parts if part not in links]
    components = _components([*ties, *({v} for v in (*bound, *free))])
    taken: list[frozenset[str]] = []
    fars: list[Far] = []
    for component in components:
        if component & free or any(_are_linked(component, other, links) for other in taken):
            continue
        far = _far(component, parts, links, guards, counted)
        if far is not None:
            taken.append(component)
            fars.append(far)
    gone = frozenset[str]().union(*taken)
    near = [part for part in parts if not free_variables(part) & gone]
    return _Split(near, tuple(sorted(bound - gone)), fars)


def _far(
    component: frozenset[str],
    parts: list[Normal],
    links: list[Normal],
    guards: tuple[Literal, ...],
    counted: tuple[str, ...],
) -> Far | None:
    """A component counted by the rows that are not denied to it.

    None if neither each denial nor a guard ties the others.
    """
    between = [p for p in links if free_variables(p) & component and not free_variables(p) <= component]
    within = [p for p in parts if free_variables(p) and free_variables(p) <= component]
    named = frozenset[str]().union(*map(free_variables, between))
    outer, inner = tuple(sorted(named - component)), tuple(sorted(named & component))
    if not between or (counted and inner != counted):
        return None
    rest = tuple(sorted(component - set(inner)))
    whole: Normal = Conjunction(tuple(within))
    whole = Some(rest, whole) if rest else whole
    near = Conjunction((whole, Disjunction(tuple(map(negated, between)))))
    ends = frozenset((*outer, *inner))
    if not _are_tied(near, ends):
        guard = next((g for g in guards if frozenset(outer) == free_variables(g)), None)
        if guard is None:
            return None
        near = Conjunction((guard, *near.parts))
        if not _are_tied(near, ends):
            return None
    # Values that no atom gives: all of their sort.
    values = [b.with_values(inner) for b in branches(whole)]
    if any(len(_components([*map(free_variables, formula_of(b)), *({v} for v in inner)])) > 1 for b in values):
        return None
    return Far(_AT_LEAST_ONE, inner, outer, whole, near)


def _are_tied(formula: Normal, ends: frozenset[str]) -> bool:
    """Whether atoms tie some variables to each other in each alternative."""
    for branch in branches(formula):
        tied = [free_variables(p) for p in formula_of(branch) if not _is_link(p)]
        if not ends <= branch.joined or not any(ends <= each for each in _components(tied)):
            return False
    return True


def _is_link(part: Normal) -> bool:
    """Whether a part ties no values of its variables: something is denied, or two variables differ."""
    if isinstance(part, Comparison):
        return part.op == "!=" and len(free_variables(part)) > 1 and part.left.only is not None
    return part.holds(0) if isinstance(part, Tally) else isinstance(part, Literal | Some) and not part.positive


def _are_linked(one: frozenset[str], other: frozenset[str], links: Iterable[Normal]) -> bool:
    return any(free_variables(p) & one and free_variables(p) & other for p in links)


def _components(ties: Iterable[Iterable[str]]) -> list[frozenset[str]]:
    """The variables that hang together, in the order in which they come."""
    found: list[set[str]] = []
    for tie in ties:
        one = set(tie)
        if not one:
            continue
        met = [each for each in found if each & one]
        for each in met:
            found.remove(each)
        found.append(one.union(*met))
    return [frozenset(each) for each in found]
