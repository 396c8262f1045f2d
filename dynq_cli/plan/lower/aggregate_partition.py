"""Which atoms of an aggregate query are summed up by themselves, before the rest is joined with what they come to.

A part is one atom, or all atoms that have some variable if one of them has every variable by which the others are
known. Its interface is what the rest knows it by: the variables that are shared with the rest or have to stay. So a
part comes to no more rows than one of its atoms has. It is worth summing up if several of its rows may have one
interface: not if that contains a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynq_cli.query.normal_form import ConjunctiveQuery

Key = frozenset[str] | None


@dataclass(frozen=True)
class Part:
    """Atoms by their numbers, and their interface in the order of the query's variables."""

    atoms: tuple[int, ...]
    interface: tuple[str, ...]


def is_bounded(query: ConjunctiveQuery, keys: Sequence[Key]) -> bool:
    """Whether an atom fixes the row of every other by keys: bindings are no more than its rows then."""
    return any(_reaches_all(query, keys, start) for start in range(len(query.atoms)))


def _reaches_all(query: ConjunctiveQuery, keys: Sequence[Key], start: int) -> bool:
    reached, fixed = {start}, query.atoms[start].variables
    for _ in query.atoms:
        for i, key in enumerate(keys):
            if key is not None and key <= fixed:
                reached.add(i)
                fixed |= query.atoms[i].variables
    return len(reached) == len(query.atoms)


def next_part(
    query: ConjunctiveQuery, keys: Sequence[Key], staying: frozenset[str], summed: frozenset[str]
) -> Part | None:
    """The part to be summed up next, an atom alone if there is one; None if what is left is the last join.

    Variables of `staying` are looked at one by one, those of `summed` are added up. Copies of a row are counted by
    any tree, so a part of a bag has to have something to add up; that of a set counts its distinct bindings.
    """
    has = [a.variables for a in query.atoms]
    for group in _groups(query, staying):
        inside = frozenset().union(*(has[i] for i in group))
        outside = frozenset().union(*(v for i, v in enumerate(has) if i not in group))
        interface = inside & (outside | staying)
        lost = inside - interface
        if query.semantics == "bag":
            lost &= summed
        known = [frozenset(has[i] & (staying | _others(has, i))) for i in group]
        whole = [i for i in group if all(v <= has[i] for v in known)]
        if lost and whole and not any(_fixes(keys[i], interface) for i in whole):
            return Part(group, tuple(v.name for v in query.variables if v.name in interface))
    return None


def _groups(query: ConjunctiveQuery, staying: frozenset[str]) -> Iterator[tuple[int, ...]]:
    """Each atom alone, then the atoms of each variable; not all atoms."""
    if len(query.atoms) > 1:
        yield from ((i,) for i in range(len(query.atoms)))
    for v in query.variables:
        group = tuple(i for i, a in enumerate(query.atoms) if v.name in a.variables)
        if v.name not in staying and 1 < len(group) < len(query.atoms):
            yield group


def _others(has: Sequence[frozenset[str]], atom: int) -> frozenset[str]:
    return frozenset().union(*(v for i, v in enumerate(has) if i != atom))


def _fixes(key: Key, interface: frozenset[str]) -> bool:
    return key is not None and key <= interface
