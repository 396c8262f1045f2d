"""The atoms of a body → atoms and terms of the draft, and what is known of every variable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from dynq_cli.query import scalar as sql
from dynq_cli.query.classes import unique_name
from dynq_cli.query.draft import Draft, Term
from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.rule.fit import fit_constant, fit_number, wrong_kind
from dynq_cli.query.rule.names import nearest
from dynq_cli.query.rule.syntax import ANY, Atom, Constant, Sum, Variable
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import Type, common_type


@dataclass
class Bindings:
    """Where the variables of a rule stand.

    `terms` has every occurrence of a variable in an atom, in order; `types` the widened type of
    those that have one; `unclear` names variables whose columns could not be found out because
    of a problem that has been reported.
    """

    terms: dict[str, list[Term]] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)

    def knows(self, name: str) -> bool:
        return name in self.types or name in self.unclear

    @property
    def names(self) -> list[str]:
        return [*self.terms, *sorted(self.unclear - set(self.terms))]

    def add(self, variable: str, term: Term, draft: Draft) -> None:
        """Note an occurrence of a variable whose types are known to have a common one."""
        earlier = self.terms.setdefault(variable, [])
        common = common_type(self.types[variable], term.scalar.type) if earlier else term.scalar.type
        assert common is not None, f"{variable} is {self.types[variable]} and {term.scalar.type}"
        self.types[variable] = common
        if earlier:
            draft.equal(earlier[0], term, 0)
        earlier.append(term)


def bind_atoms(
    atoms: Iterable[Atom], spec: Spec, draft: Draft, nulls: bool = True
) -> tuple[Bindings, list[TextProblem]]:
    """Add the atoms of a body to the draft. Unless `nulls`, a row with NULL for a variable stays out."""
    binder = _Binder(spec, draft, nulls)
    for atom in atoms:
        binder.atom(atom)
    return binder.bindings, binder.problems


class _Binder:
    def __init__(self, spec: Spec, draft: Draft, nulls: bool) -> None:
        self.spec = spec
        self.draft = draft
        self.nulls = nulls
        self.bindings = Bindings()
        self.problems: list[TextProblem] = []
        self._used = {a.alias for a in draft.atoms}
        self._aliases = {r.name for r in spec.relations} | self._used

    def _report(self, at: int, message: str, hint: str) -> None:
        self.problems.append(TextProblem(at, message, hint))

    def atom(self, atom: Atom) -> None:
        relation = self.spec.relation(atom.relation)
        if relation is None or len(atom.arguments) != len(relation.columns):
            self._unusable(atom, relation)
            return
        index = self.draft.atom(self._alias(relation.name), relation.name)
        for argument, column in zip(atom.arguments, relation.columns, strict=True):
            self._argument(index, relation, column, argument)

    def _alias(self, name: str) -> str:
        """The relation's name, numbered from its second atom on, and never that of another relation."""
        if name not in self._used:
            self._used.add(name)
            return name
        return unique_name(name, self._aliases)

    def _unusable(self, atom: Atom, relation: Relation | None) -> None:
        self.bindings.unclear |= {v.name for a in atom.arguments for v in a.variables}
        if relation is not None:
            few = len(atom.arguments) < len(relation.columns)
            columns = ", ".join(f"{c.name} {c.type}{'?' if c.nullable else ''}" for c in relation.columns)
            given = len(atom.arguments) or "none"
            many = f"{len(relation.columns)} column{'s' if len(relation.columns) > 1 else ''}"
            self._report(
                atom.at,
                f"{relation.name} has {many}, and this atom has {given}",
                f"its columns are {columns}" + ("; write _ for one that does not matter" if few else ""),
            )
        elif self.spec.query(atom.relation) is not None:
            hint = "a body names relations only; repeat the atoms of that query here"
            self._report(atom.at, f"{atom.relation} is a query, not a relation", hint)
        else:
            near = nearest(atom.relation, (r.name for r in self.spec.relations))
            known = ", ".join(r.name for r in self.spec.relations)
            hint = f"did you mean {near}?" if near else f"the relations are {known}"
            self._report(atom.at, f"there is no relation {atom.relation}", hint)

    def _argument(self, index: int, relation: Relation, column: Column, argument: Sum) -> None:
        value = argument.only
        if isinstance(value, Variable):
            if value.name != ANY:
                self._variable(index, relation, column, value)
        elif argument.unreadable:
            return
        elif len(argument.parts) == 1 and isinstance(argument.parts[0].operand, Constant):
            self._constant(index, relation, column, argument.parts[0].operand, argument.parts[0].sign, argument.at)
        else:
            self.bindings.unclear |= {v.name for v in argument.variables}
            message = f"{shown(str(argument))} is a sum, and an argument is a variable, _ or a constant"
            as_variable = f"write a new variable here, and compare it: {shown(f'v = {argument}')}"
            self._report(argument.at, message, as_variable if argument.variables else "write the result of the sum")

    def _variable(self, index: int, relation: Relation, column: Column, variable: Variable) -> None:
        name = variable.name
        value = sql.column_scalar(column)
        if value.nullable and not self.nulls:
            self.draft.filter(index, sql.not_null(value))
            value = replace(value, nullable=False)
        term = self.draft.term(index, value, name)
        earlier = self.bindings.terms.setdefault(name, [])
        known = self.bindings.types.get(name)
        common = column.type if not earlier else None if known is None else common_type(known, column.type)
        if common is not None:
            self.bindings.types[name] = common
        elif known is not None:
            del self.bindings.types[name]
            self.bindings.unclear.add(name)
            self._report(
                variable.at,
                f"{name} is {known} before and {column.type} here, in {relation.name}.{column.name}: "
                "they have no common type",
                "use two variables, or declare both columns with one type",
            )
        if earlier:
            self.draft.equal(earlier[0], term, variable.at)
        earlier.append(term)

    def _constant(self, index: int, relation: Relation, column: Column, constant: Constant, sign: int, at: int) -> None:
        try:
            made = fitted(relation, column, constant, sign, at)
        except QueryProblems as found:
            self.problems += found.problems
            return
        self.draft.equal_constant(self.draft.term(index, sql.column_scalar(column), column.name), made, at)


def fitted(relation: Relation, column: Column, constant: Constant, sign: int, at: int) -> Scalar:
    """The literal of a constant in the type of a column. Raises QueryProblems."""
    name = f"{relation.name}.{column.name}"
    if isinstance(constant.value, Decimal) and column.type.is_numeric:
        return fit_number(name, column.type, "=", sign * constant.value, constant.floating, at)[1]
    if sign > 0:
        return fit_constant(name, column.type, constant)
    raise wrong_kind(name, column.type, constant)
