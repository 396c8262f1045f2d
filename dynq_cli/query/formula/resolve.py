"""A definition → what it says of the relations of a spec: names known, variables with columns, negations inside.

Each quantifier binds a variable of its own name. `->`, `<->` and `forall` are gone; `not` stands in front of atoms and
of quantifiers only.

Two columns belong to one *sort* if a variable stands in both, or if two variables that `=` or `!=` compares do.
A variable ranges over the values of all columns of its sort. A formula and its negation have the same sorts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynq_cli.query.classes import unique_name, widest
from dynq_cli.query.draft import Draft
from dynq_cli.query.formula import syntax as s
from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.rule.atoms import bind_atoms
from dynq_cli.query.rule.linear import reduce
from dynq_cli.query.rule.names import nearest
from dynq_cli.query.rule.syntax import ANY, Atom, Comparison, Part, Sum, Variable
from dynq_cli.spec.model import Spec
from dynq_cli.spec.types import Type

# The relation, and the place of the column in it.
Place = tuple[str, int]
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Literal:
    """An atom, or its negation."""

    atom: Atom
    positive: bool = True


@dataclass(frozen=True)
class Some:
    """There is, or is not, a row of values for `variables` with which the body holds."""

    variables: tuple[str, ...]
    body: Normal
    positive: bool = True


@dataclass(frozen=True)
class Tally:
    """The number of values of `variable` with which the body holds satisfies, or does not satisfy, `count`."""

    count: s.Count
    variable: str
    body: Normal
    positive: bool = True

    def holds(self, n: int) -> bool:
        return self.count.holds(n) == self.positive

    def over(self, n: str) -> str:
        condition = self.count.over(n)
        return condition if self.positive else f"NOT ({condition})"


@dataclass(frozen=True)
class Far:
    """The number of rows of `counted` values that satisfy `whole`, less (or with `adds`, plus) those of them in `near`,
    satisfies, or does not satisfy, `count`.

    `whole` has no other variables; `near` ties `outer` to the counted ones. `touched` picks one of the two cases: there
    is a near row for the outer values, or there is none; None means both.
    """

    count: s.Count
    counted: tuple[str, ...]
    outer: tuple[str, ...]
    whole: Normal
    near: Normal
    adds: bool = False
    positive: bool = True
    touched: bool | None = None

    def holds(self, n: int) -> bool:
        return self.count.holds(n) == self.positive

    def over(self, n: str) -> str:
        """The condition on a number, as SQL."""
        condition = self.count.over(n)
        return condition if self.positive else f"NOT ({condition})"

    @property
    def op(self) -> str:
        """How `compared` of the number of all rows has to relate to `wanted` of the number of near ones."""
        if self.count.kind == "at_least":
            return ">=" if self.positive else "<"
        if self.count.kind == "at_most":
            return "<=" if self.positive else ">"
        return "=" if self.positive else "!="

    def compared(self, n: str) -> str:
        return f"{n} % {self.count.modulus}" if self.count.kind == "mod" else n

    def wanted(self, n: str) -> str:
        """The number of all rows at which the condition turns, as SQL over the number of near ones."""
        wanted = f"{self.count.number} - {n}" if self.adds else f"{self.count.number} + {n}"
        if self.count.kind != "mod":
            return wanted
        modulus = self.count.modulus
        return f"(({wanted}) % {modulus} + {modulus}) % {modulus}"


@dataclass(frozen=True)
class Conjunction:
    parts: tuple[Normal, ...]


@dataclass(frozen=True)
class Disjunction:
    parts: tuple[Normal, ...]


Normal = Literal | Comparison | Some | Tally | Far | Conjunction | Disjunction


@dataclass(frozen=True)
class Resolved:
    """`places` are the columns over whose values a variable ranges."""

    name: str
    head: tuple[str, ...]
    formula: Normal
    places: Mapping[str, tuple[Place, ...]]


def resolve(definition: s.Definition, spec: Spec) -> Resolved:
    """What a definition says over the relations of a spec. Raises QueryProblems with all its problems."""
    head = tuple(v.name for v in definition.head)
    renamer = _Renamer(head)
    formula = renamer.formula(_connectives(definition.formula), {name: name for name in head})
    problems = _check_head(definition)
    atoms = [part for part in s.walk(formula) if isinstance(part, Atom)]
    comparisons = [part for part in s.walk(formula) if isinstance(part, Comparison)]
    bindings, found = bind_atoms(atoms, spec, Draft(definition.name, "set"))
    problems += found
    if not found:
        sorts = _sorts(atoms, comparisons)
        quantified = [v for part in s.walk(formula) for v in s.quantified(part)]
        problems += _check_variables(definition.head, quantified, renamer.free, sorts)
        problems += _check_comparisons(comparisons, dict(bindings.types), sorts, spec)
    if problems:
        raise QueryProblems(sorted(dict.fromkeys(problems), key=lambda p: p.offset))
    return Resolved(definition.name, head, _normal(formula, True), sorts)


def _check_head(definition: s.Definition) -> list[TextProblem]:
    problems, seen = [], set[str]()
    for variable in definition.head:
        if variable.name in seen:
            problems.append(TextProblem(variable.at, f"the head has {variable.name} twice", "leave one of them out"))
        if variable.name.startswith("_"):
            hint = f"name it otherwise, as in {variable.name.lstrip('_') or 'x'}"
            message = f"the output column {variable.name} begins with _, as only dynq's own columns do"
            problems.append(TextProblem(variable.at, message, hint))
        seen.add(variable.name)
    return problems


class _Renamer:
    """Gives each quantified variable a name of its own, and notes the variables that nothing binds."""

    def __init__(self, head: tuple[str, ...]) -> None:
        self.used = set(head)
        self.free: dict[str, Variable] = {}

    def formula(self, formula: s.Formula, names: Mapping[str, str]) -> s.Formula:
        bound = s.quantified(formula)
        if bound:
            own = {v.name: unique_name(v.name, self.used) for v in bound}
            names = {**names, **own}
            renamed = tuple(Variable(own[v.name], v.at) for v in bound)
            if isinstance(formula, s.Counted):
                return replace(formula, variable=renamed[0], body=self.formula(formula.body, names))
            assert isinstance(formula, s.Exists | s.ForAll)
            return replace(formula, variables=renamed, body=self.formula(formula.body, names))
        if isinstance(formula, Atom):
            return replace(formula, arguments=tuple(self._sum(a, names) for a in formula.arguments))
        if isinstance(formula, Comparison):
            return replace(formula, left=self._sum(formula.left, names), right=self._sum(formula.right, names))
        if isinstance(formula, s.Not):
            return replace(formula, body=self.formula(formula.body, names))
        assert isinstance(formula, s.And | s.Or)
        return replace(formula, parts=tuple(self.formula(part, names) for part in formula.parts))

    def _sum(self, given: Sum, names: Mapping[str, str]) -> Sum:
        return replace(given, parts=tuple(self._part(part, names) for part in given.parts))

    def _part(self, part: Part, names: Mapping[str, str]) -> Part:
        variable = part.operand
        if not isinstance(variable, Variable) or variable.name == ANY:
            return part
        if variable.name not in names:
            self.free.setdefault(variable.name, variable)
            return part
        return replace(part, operand=Variable(names[variable.name], variable.at))


def _connectives(formula: s.Formula) -> s.Formula:
    """The same formula without `->` and `<->`."""
    if isinstance(formula, s.Implies | s.Iff):
        left, right = _connectives(formula.left), _connectives(formula.right)
        there = s.Or((s.Not(left), right))
        return there if isinstance(formula, s.Implies) else s.And((there, s.Or((s.Not(right), left))))
    if isinstance(formula, s.And | s.Or):
        return replace(formula, parts=tuple(map(_connectives, formula.parts)))
    if isinstance(formula, s.Not | s.Exists | s.ForAll | s.Counted):
        return replace(formula, body=_connectives(formula.body))
    return formula


def _normal(formula: s.Formula, positive: bool) -> Normal:
    """A formula, or its negation, with negations inside."""
    if isinstance(formula, Atom):
        return Literal(formula, positive)
    if isinstance(formula, Comparison):
        return formula if positive else replace(formula, op=_OPPOSITE[formula.op])
    if isinstance(formula, s.Not):
        return _normal(formula.body, not positive)
    if isinstance(formula, s.And | s.Or):
        parts = tuple(_normal(part, positive) for part in formula.parts)
        return (Conjunction if isinstance(formula, s.And) == positive else Disjunction)(parts)
    if isinstance(formula, s.Counted):
        return Tally(formula.count, formula.variable.name, _normal(formula.body, True), positive)
    assert isinstance(formula, s.Exists | s.ForAll)
    names = tuple(v.name for v in formula.variables)
    is_exists = isinstance(formula, s.Exists)
    return Some(names, _normal(formula.body, is_exists), positive == is_exists)


def negated(formula: Normal) -> Normal:
    """The denial of a formula, with negations inside."""
    if isinstance(formula, Comparison):
        return replace(formula, op=_OPPOSITE[formula.op])
    if isinstance(formula, Conjunction | Disjunction):
        parts = tuple(map(negated, formula.parts))
        return (Disjunction if isinstance(formula, Conjunction) else Conjunction)(parts)
    assert not isinstance(formula, Far) or formula.touched is None
    return replace(formula, positive=not formula.positive)


def _sorts(atoms: list[Atom], comparisons: list[Comparison]) -> dict[str, tuple[Place, ...]]:
    """The columns that each variable ranges over, in the order in which the formula names them."""
    members: dict[object, list[object]] = {}

    def union(one: object, other: object) -> None:
        mine, theirs = members.setdefault(one, [one]), members.setdefault(other, [other])
        if mine is not theirs:
            mine += theirs
            members.update(dict.fromkeys(theirs, mine))

    for atom in atoms:
        for place, argument in enumerate(atom.arguments):
            if isinstance(argument.only, Variable) and argument.only.name != ANY:
                union(argument.only.name, (atom.relation, place))
    for comparison in comparisons:
        sides = (comparison.left.only, comparison.right.only)
        if comparison.op in ("=", "!=") and isinstance(sides[0], Variable) and isinstance(sides[1], Variable):
            union(sides[0].name, sides[1].name)
    return {
        name: tuple(dict.fromkeys(m for m in group if isinstance(m, tuple)))
        for name, group in members.items()
        if isinstance(name, str)
    }


def _check_variables(
    head: tuple[Variable, ...], quantified: list[Variable], free: Mapping[str, Variable], sorts: Mapping[str, object]
) -> list[TextProblem]:
    problems = []
    bound = {v.name for v in head}
    for name, variable in free.items():
        near = nearest(name, bound)
        hint = (f"did you mean {near}? Else " if near else "") + f"put it into the head, or write exists {name}: …"
        problems.append(TextProblem(variable.at, f"{name} is neither in the head nor quantified", hint))
    for variable in (*head, *quantified):
        if not sorts.get(variable.name):
            message = f"no atom has the variable {variable.name}, so it ranges over no values"
            problems.append(TextProblem(variable.at, message, "put it into an atom, or leave it out"))
    return problems


def _check_comparisons(
    comparisons: list[Comparison], types: dict[str, Type], sorts: Mapping[str, tuple[Place, ...]], spec: Spec
) -> list[TextProblem]:
    """What is wrong with comparisons of variables whose types are known."""
    problems: list[TextProblem] = []
    for comparison in comparisons:
        named = [v for v in s.variables_of(comparison) if v.name != ANY]
        for variable in named:
            kind = type_of(sorts.get(variable.name, ()), spec)
            if variable.name not in types and kind is not None:
                types[variable.name] = kind
        if all(v.name in types for v in s.variables_of(comparison)):
            try:
                reduce(comparison, types)
            except QueryProblems as found:
                problems += found.problems
    return problems


def type_of(places: tuple[Place, ...], spec: Spec) -> Type | None:
    """The type of all columns of a sort; None if they have no common one."""
    columns = [relation.columns[at] for name, at in places if (relation := spec.relation(name)) is not None]
    return widest([c.type for c in columns]) if columns else None


def free_variables(formula: Normal) -> frozenset[str]:
    """The variables that stand in a formula and that none of its quantifiers binds."""
    if isinstance(formula, Literal | Comparison):
        leaf = formula.atom if isinstance(formula, Literal) else formula
        return frozenset(v.name for v in s.variables_of(leaf) if v.name != ANY)
    if isinstance(formula, Some):
        return free_variables(formula.body) - set(formula.variables)
    if isinstance(formula, Tally):
        return free_variables(formula.body) - {formula.variable}
    if isinstance(formula, Far):
        return frozenset(formula.outer)
    return frozenset().union(*map(free_variables, formula.parts))
