"""A formula as alternatives: each is a conjunction, and a row satisfies the formula if it satisfies one of them.

    A(x) and (B(x) or exists y: C(x, y))       A(x), B(x)   or   A(x), C(x, y)

Variables of quantifiers that are asserted join the others. What is denied or counted stays whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

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
from dynq_cli.query.formula.syntax import Count, variables_of
from dynq_cli.query.problems import refuse
from dynq_cli.query.rule.syntax import ANY, Atom, Comparison, Variable

# A union of so many members is read from their trees.
READ_TOGETHER = 4
MOST = 64


@dataclass(frozen=True)
class Branch:
    """A conjunction: `atoms`, `comparisons` and unions (`kept`) hold; `lacking` is denied; `tallies` and `fars` count.

    Some value is asked for of each variable in `ranging`, which no atom has.
    """

    atoms: tuple[Atom, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    kept: tuple[Disjunction, ...] = ()
    lacking: tuple[Literal | Some | Tally, ...] = ()
    tallies: tuple[Tally, ...] = ()
    ranging: tuple[str, ...] = ()
    fars: tuple[Far, ...] = ()

    def __and__(self, other: Branch) -> Branch:
        return Branch(
            tuple(dict.fromkeys((*self.atoms, *other.atoms))),
            tuple(dict.fromkeys((*self.comparisons, *other.comparisons))),
            (*self.kept, *other.kept),
            tuple(dict.fromkeys((*self.lacking, *other.lacking))),
            (*self.tallies, *other.tallies),
            (*self.ranging, *other.ranging),
            (*self.fars, *other.fars),
        )

    def with_values(self, variables: tuple[str, ...]) -> Branch:
        """The same branch where there is a value for each of some variables."""
        return replace(self, ranging=(*self.ranging, *(v for v in variables if v not in self.joined)))

    @property
    def is_one_atom(self) -> bool:
        return len(self.atoms) == 1 and self == Branch(atoms=self.atoms)

    @property
    def joined(self) -> frozenset[str]:
        """The variables that a join of what holds gives values to."""
        found = {v.name for a in self.atoms for v in variables_of(a) if v.name != ANY}
        parts: tuple[Normal, ...] = (*self.kept, *self.tallies, *(f for f in self.fars if f.touched))
        found |= frozenset[str]().union(*map(free_variables, parts))
        while True:
            more = {v for pair in self.equated for v in pair if found & set(pair)} - found
            if not more:
                return frozenset(found)
            found |= more

    @property
    def equated(self) -> list[tuple[str, str]]:
        """The pairs of variables that are equal."""
        sides = [(c.left.only, c.right.only) for c in self.comparisons if c.op == "="]
        return [(a.name, b.name) for a, b in sides if isinstance(a, Variable) and isinstance(b, Variable)]

    @property
    def named(self) -> frozenset[str]:
        """All variables that it names, but for those that quantifiers within it bind."""
        found = self.joined | {v.name for c in self.comparisons for v in variables_of(c)}
        for part in (*self.lacking, *self.fars):
            found |= free_variables(part)
        return found


def branches(formula: Normal) -> list[Branch]:
    """The alternatives of a formula. Raises QueryProblems if there are too many."""
    if isinstance(formula, Literal):
        return [Branch(atoms=(formula.atom,)) if formula.positive else Branch(lacking=(formula,))]
    if isinstance(formula, Comparison):
        return [Branch(comparisons=(formula,))]
    if isinstance(formula, Some):
        return existing(formula) if formula.positive else [Branch(lacking=(formula,))]
    if isinstance(formula, Tally):
        return _counted(formula)
    if isinstance(formula, Far):
        cases = (True, False) if formula.touched is None else (formula.touched,)
        return [Branch(fars=(replace(formula, touched=case),)) for case in cases]
    if isinstance(formula, Disjunction):
        return _few([b for part in formula.parts for b in branches(part)])
    return _conjunction(formula)


def existing(formula: Some) -> list[Branch]:
    """The alternatives in which there are values for the variables of a quantifier."""
    return _few([b.with_values(formula.variables) for b in branches(formula.body)])


def _conjunction(formula: Conjunction) -> list[Branch]:
    parts = list(_parts(formula))
    several = [(part, branches(part)) for part in parts]
    guards = [part for part in parts if isinstance(part, Literal) and part.positive]
    # Alternatives are multiplied out only where they are few.
    if prod(len(found) for _, found in several) > READ_TOGETHER:
        several = [(part, _kept(part, found, guards)) for part, found in several]
    made = [Branch()]
    for _, found in sorted(several, key=lambda s: len(s[1])):
        made = _few([one & other for one in made for other in found])
    return made


def _parts(formula: Conjunction) -> Iterator[Normal]:
    for part in formula.parts:
        if isinstance(part, Conjunction):
            yield from _parts(part)
        else:
            yield part


def _kept(part: Normal, found: list[Branch], guards: Sequence[Literal]) -> list[Branch]:
    """A disjunction as one alternative, whose rows are stored: those of an atom around it, or of its own atoms."""
    if not isinstance(part, Disjunction):
        return found
    free = free_variables(part)
    guard = next((g for g in guards if free and free <= free_variables(g)), None)
    if guard is not None:
        return [Branch(kept=(Disjunction(tuple(Conjunction((guard, one)) for one in part.parts)),))]
    return [Branch(kept=(part,))] if _gives_all(part, found) else found


def _gives_all(formula: Disjunction, found: list[Branch]) -> bool:
    """Whether each alternative gives values to all variables, so that their union can be stored by itself."""
    free = free_variables(formula)
    return bool(free) and all(free <= b.joined for b in found)


def _counted(formula: Tally) -> list[Branch]:
    """Groups have a row only where something is counted: what holds where nothing is, is the denial of its opposite."""
    if formula.positive and formula.count == Count("at_least", 1):
        return existing(Some((formula.variable,), formula.body))
    if not free_variables(formula) or not formula.holds(0):
        return [Branch(tallies=(formula,))]
    if formula.positive and formula.count in (Count("exactly", 0), Count("at_most", 0)):
        return [Branch(lacking=(Some((formula.variable,), formula.body, positive=False),))]
    return [Branch(lacking=(replace(formula, positive=not formula.positive),))]


def _few(found: list[Branch]) -> list[Branch]:
    found = list(dict.fromkeys(found))
    if len(found) > MOST:
        message = f"the formula has more than {MOST} alternatives once its disjunctions are multiplied out"
        raise refuse(0, message, "give a disjunction a query of its own, or write it nearer to the atoms it is about")
    return found


def widened(branch: Branch, around: Branch, needed: frozenset[str]) -> Branch:
    """A branch with atoms of the conjunction around it that give values to variables which it needs and lacks."""
    missing = needed - branch.joined
    for atom in around.atoms:
        if missing & {v.name for v in variables_of(atom)}:
            branch = replace(branch, atoms=tuple(dict.fromkeys((*branch.atoms, atom))))
            missing = needed - branch.joined
    return branch


def guarded(branch: Branch, around: Branch, groups: frozenset[str]) -> Branch:
    """A branch, counted for each value of `groups`, with an atom around it that has all of these.

    Not where one atom of the branch has them: then the groups are no more than its rows.
    """
    several = [{v.name for v in variables_of(a)} for a in branch.atoms]
    guards = [a for a in around.atoms if groups <= {v.name for v in variables_of(a)}]
    if len(several) < 2 or any(groups <= names for names in several) or not guards:
        return branch
    return replace(branch, atoms=(*branch.atoms, guards[0]))


def formula_of(branch: Branch) -> list[Normal]:
    """The parts of the conjunction that a branch is, but for values of variables that no atom has."""
    lacking = [negated(part) if isinstance(part, Tally) else part for part in branch.lacking]
    literals = [Literal(atom) for atom in branch.atoms]
    return [*literals, *branch.comparisons, *branch.kept, *lacking, *branch.tallies, *branch.fars]
