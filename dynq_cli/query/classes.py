"""Classes of equal terms: each becomes one variable.

Terms of join and semi atoms are merged by equality. Terms of anti atoms never are: what a NOT
EXISTS says of its rows must not reach the rows outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dynq_cli.query.draft import Draft, Term
from dynq_cli.query.normal_form import Scalar
from dynq_cli.spec.types import Type, common_type


def describe(draft: Draft, term: Term) -> str:
    """A term as a user would recognise it: name and type."""
    return f"{draft.atoms[term.atom].alias}.{term.name} ({term.scalar.type})"


class Classes:
    """Union-find over the terms of a draft, with the constant a class equals, if any."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._parent: dict[Term, Term] = {t: t for t in draft.terms if draft.atoms[t.atom].mode != "anti"}
        self._place = {t: i for i, t in enumerate(draft.terms)}
        self._members: dict[Term, list[Term]] = {t: [t] for t in self._parent}
        self.constant: dict[Term, Scalar] = {}

    def find(self, term: Term) -> Term:
        while self._parent[term] != term:
            self._parent[term] = self._parent[self._parent[term]]
            term = self._parent[term]
        return term

    def union(self, a: Term, b: Term) -> None:
        """Merge two classes; the earlier term stays the representative."""
        first, second = self.find(a), self.find(b)
        if first == second:
            return
        if self._place[second] < self._place[first]:
            first, second = second, first
        self._parent[second] = first
        self._members[first] = sorted(self._members[first] + self._members.pop(second), key=self._place.__getitem__)
        if second in self.constant:
            self.constant.setdefault(first, self.constant.pop(second))

    def key(self, term: Term) -> str:
        """A name for the class of a term, the same for all of its terms."""
        return str(self._place[self.find(term)])

    def of_key(self, key: str) -> Term:
        return self.draft.terms[int(key)]

    def members(self, representative: Term) -> list[Term]:
        return self._members[representative]

    def representatives(self) -> list[Term]:
        return list(self._members)

    def atoms(self, representative: Term) -> list[int]:
        """Atoms that have a term of the class, in order."""
        return sorted({t.atom for t in self.members(representative)})

    def names(self) -> dict[Term, str]:
        """One name per class: the term's own where unique, else with the atom's alias."""
        classes = self.representatives()
        wanted = Counter(t.name for t in classes)
        taken: set[str] = set()
        names: dict[Term, str] = {}
        for t in classes:
            base = t.name if wanted[t.name] == 1 else f"{self.draft.atoms[t.atom].alias}_{t.name}"
            names[t] = unique_name(base, taken)
        return names


def unique_name(base: str, taken: set[str]) -> str:
    """`base`, or `base_2`, `base_3` …; the name is taken from now on."""
    name, n = base, 2
    while name in taken:
        name, n = f"{base}_{n}", n + 1
    taken.add(name)
    return name


def widest(types: Sequence[Type]) -> Type | None:
    """The one type of all, after lossless widening."""
    found: Type | None = types[0]
    for other in types[1:]:
        found = common_type(found, other) if found is not None else None
    return found
