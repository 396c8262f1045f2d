"""The head of a rule → output columns, groups and aggregates of the draft.

Plain variables are output columns under their own name or a given one; next to aggregates they
are the groups. Aggregates without groups give one row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from dynq_cli.query.aggregates import basic, find, names_shown, written_names
from dynq_cli.query.aggregates.additive import TooLargeError, Value, basic_aggregates
from dynq_cli.query.aggregates.definition import Additive, Basic, objection
from dynq_cli.query.aggregates.ordered import in_rules, keys_of
from dynq_cli.query.draft import Draft, DraftAggregate, Expression, Term
from dynq_cli.query.normal_form import Factor, Monomial, Scalar
from dynq_cli.query.problems import QueryProblems, TextProblem, refuse
from dynq_cli.query.rule.atoms import Bindings
from dynq_cli.query.rule.names import nearest
from dynq_cli.query.rule.syntax import ANY, Call, Constant, Item, Sum, Variable
from dynq_cli.query.scalar import quote, type_of_expression
from dynq_cli.spec.model import Column
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import INT64


def unbound(name: str, bindings: Bindings) -> tuple[str, str]:
    """Message and hint for a variable that stands in no atom."""
    if name == ANY:
        return "_ stands for a value that does not matter", "give the column a variable and use that"
    near = nearest(name, bindings.names)
    hint = f"did you mean {near}?" if near else f"put {name} into an atom of the body"
    return f"no atom of the body has the variable {name}", hint


def build_head(items: Iterable[Item], bindings: Bindings, draft: Draft, compared: Collection[str]) -> list[TextProblem]:
    """Add the head to the draft; `compared` are variables which a comparison keeps from being NULL."""
    listed = list(items)
    head = _Head(bindings, draft, compared, any(isinstance(i.value, Sum) for i in listed))
    problems: list[TextProblem] = []
    for item in listed:
        try:
            head.add(item)
        except QueryProblems as found:
            problems += found.problems
    if any(isinstance(i.value, Call) for i in listed) and head.groups:
        draft.group_by = head.groups
    return problems


class _Head:
    def __init__(self, bindings: Bindings, draft: Draft, compared: Collection[str], grouped: bool) -> None:
        self.bindings = bindings
        self.draft = draft
        self.compared = compared
        self.grouped = grouped
        self.groups: list[Term] = []
        self.columns: dict[str, str] = {}

    def add(self, item: Item) -> None:
        value = item.value
        if isinstance(value, Call):
            self._aggregate(item, value)
            return
        if value.unreadable:
            return
        variable = value.only
        if not isinstance(variable, Variable):
            raise _not_for_heads(item, value)
        term = self._term(variable)
        name = self._column(item, variable.name)
        if term is not None:
            self.draft.output(name, term)
            self.groups.append(term)

    def _term(self, variable: Variable) -> Term | None:
        """The first term of a variable; None if a reported problem hides its type."""
        if not self.bindings.knows(variable.name):
            raise refuse(variable.at, *unbound(variable.name, self.bindings))
        return self.bindings.terms[variable.name][0] if variable.name in self.bindings.types else None

    def _column(self, item: Item, default: str) -> str:
        name = item.column or default
        if name.startswith("_"):
            hint = f"name it otherwise, as in {name.lstrip('_') or 'c'} = {item.value}"
            raise refuse(item.at, f"the output column {name} begins with _, as only dynq's own columns do", hint)
        taken = self.columns.setdefault(name.lower(), name)
        if taken is not name:
            what = f"column {name} twice" if taken == name else f"columns {taken} and {name} differ only in case"
            raise refuse(item.at, what, f"name one of them otherwise, as in {name}_2 = {item.value}")
        return name

    def _aggregate(self, item: Item, call: Call) -> None:
        definition = find(call.function)
        if definition is None:
            near = nearest(call.function, written_names())
            hint = f"did you mean {near}?" if near else f"the aggregates are {names_shown()}"
            raise refuse(call.at, f"there is no aggregate {call.function}", hint)
        if isinstance(definition, Additive):
            self._additive(item, call, definition)
            return
        if definition.state == "ordered" and definition.reading not in ("least", "greatest"):
            self._in_order(item, call, definition)
            return
        if not call.arguments and definition.reading == "count" and not call.distinct:
            self._add(self._column(item, definition.name), DraftAggregate("", definition.name, INT64, False))
            return
        (variable,) = _arguments(call, ("x",))
        if call.distinct and not definition.of_distinct:
            raise refuse(
                call.at, f"{definition.name}(distinct ...) is not supported", "distinct goes with count, sum and avg"
            )
        term = self._term(variable)
        name = self._column(item, f"{definition.name}_{'distinct_' if call.distinct else ''}{variable.name}")
        if term is None:
            return
        if call.distinct:
            definition = basic(definition.of_distinct)
        self._add(name, self._basic(definition, variable, term))

    def _in_order(self, item: Item, call: Call, definition: Basic) -> None:
        """An aggregate that reads the values of a group in order."""
        detail = in_rules(call.function)
        if detail is None or call.distinct:
            message = f"{call.function}{'(distinct ...)' if call.distinct else ''} is not supported in rules"
            raise refuse(call.at, message, f"use sql: for {call.function}")
        variables = _arguments(call, ("x", "y")[: max(1, len(keys_of(detail)) if detail.startswith("asc") else 1)])
        found = [self._term(v) for v in variables]
        name = self._column(item, "_".join([call.function, *(v.name for v in variables)]))
        terms = tuple(term for term in found if term is not None)
        if len(terms) < len(found):
            return
        kind = self.bindings.types[variables[0].name]
        if call.function == "median" and objection(definition, kind) is not None:
            definition = basic("quantile_disc")
        _check_type(definition, variables[0], terms[0])
        made = DraftAggregate("", definition.name, definition.type_of(kind), True, terms=terms, detail=detail)
        self._add(name, made)

    def _basic(self, definition: Basic, variable: Variable, term: Term) -> DraftAggregate:
        _check_type(definition, variable, term)
        is_count = definition.reading == "count"
        nullable = not is_count and (self._may_be_null(variable.name, term) or not self.grouped)
        if definition.state == "sums":
            kind, monomials = definition.type_of(term.scalar.type), _monomials(term, term.scalar)
            return DraftAggregate("", definition.name, kind, nullable, monomials)
        kind = definition.type_of(self.bindings.types[variable.name])
        return DraftAggregate("", definition.name, kind, nullable, terms=(term,))

    def _add(self, name: str, aggregate: DraftAggregate) -> None:
        self.draft.output(name, replace(aggregate, name=name))

    def _additive(self, item: Item, call: Call, definition: Additive) -> None:
        if call.distinct:
            raise refuse(
                call.at, f"{definition.name}(distinct ...) is not supported", "distinct goes with count, sum and avg"
            )
        variables = _arguments(call, definition.arguments)
        found = [self._term(v) for v in variables]
        name = self._column(item, "_".join([definition.name, *(v.name for v in variables)]))
        terms = {a: term for a, term in zip(definition.arguments, found, strict=True) if term is not None}
        if len(terms) < len(found):
            return
        for variable, term in zip(variables, terms.values(), strict=True):
            _check_type(definition, variable, term)
        try:
            sums = basic_aggregates(
                definition,
                lambda factor: _factor(factor, terms),
                # No other column has a point in its name.
                lambda part: f"{name}.{part}",
                nullable=not self.grouped,
            )
        except TooLargeError as error:
            raise refuse(call.at, str(error), error.hint) from None
        types = {a: term.scalar.type for a, term in terms.items()}
        sql = definition.result_over(types, {part: quote(a.name) for part, a in sums.items()})
        kind = type_of_expression(sql, [Column(a.name, a.type, a.nullable) for a in sums.values()])
        template = definition.result_over(types, {part: f"{{{i}}}" for i, part in enumerate(sums)})
        self.draft.output(name, Expression(template, tuple(sums.values()), kind, True))

    def _may_be_null(self, name: str, term: Term) -> bool:
        return term.scalar.nullable and len(self.bindings.terms[name]) == 1 and name not in self.compared


def _monomials(term: Term, scalar: Scalar) -> tuple[Monomial, ...]:
    return (Monomial(Decimal(1), (Factor(term.atom, scalar),)),)


def _factor(factor: str, terms: Mapping[str, Term]) -> Value:
    """A factor of an additive aggregate over the variables given for its arguments."""
    used = [a for a in terms if f"{{{a}}}" in factor]
    term = terms[used[0]]
    scalar = term.scalar
    if factor != f"{{{used[0]}}}":
        sql = f"({factor.format_map({a: t.scalar.sql for a, t in terms.items()})})"
        kind = type_of_expression(
            factor.format_map({a: quote(a) for a in used}), [Column(used[0], scalar.type, scalar.nullable)]
        )
        scalar = Scalar(sql, kind, True, scalar.columns)
    return Value(scalar.type, _monomials(term, scalar))


def _check_type(definition: Basic | Additive, variable: Variable, term: Term) -> None:
    said = objection(definition, term.scalar.type)
    if said is None:
        return
    if term.scalar.type.is_float:
        raise refuse(variable.at, said[0], f"use sql: and {said[1].partition('; ')[2]}")
    message = f"{variable.name} is {term.scalar.type}, and {definition.name} takes numbers"
    raise refuse(variable.at, message, "use min, max or count, or another variable")


def _arguments(call: Call, names: Sequence[str]) -> list[Variable]:
    """The variables that an aggregate is given, one for each of `names`."""
    found = [a.only for a in call.arguments]
    if len(found) == len(names) and all(isinstance(v, Variable) and v.name != ANY for v in found):
        return [v for v in found if isinstance(v, Variable)]
    if any(a.unreadable for a in call.arguments):
        raise QueryProblems([])
    example = f"{call.function}({', '.join('yz'[: len(names)] if len(names) < 3 else names)})"
    many = "one variable" if len(names) == 1 else f"{len(names)} variables"
    if not call.arguments:
        takes = "a variable" if len(names) == 1 else many
        raise refuse(call.at, f"{call.function} takes {takes}", f"write it as in {example}")
    raise refuse(
        call.arguments[0].at,
        f"{call.function} takes {many}, not {shown(', '.join(map(str, call.arguments)))}",
        f"write it as in {example}, or use sql: for {call.function} of an expression",
    )


def _not_for_heads(item: Item, value: Sum) -> QueryProblems:
    if isinstance(value.parts[0].operand, Constant) and len(value.parts) == 1:
        return refuse(
            value.at,
            f"a head takes variables and aggregates, and {shown(str(value))} is a constant",
            "leave it out, or select it in sql:",
        )
    name = item.column or "c"
    return refuse(
        value.at,
        f"a head takes variables and aggregates, and {shown(str(value))} is a sum",
        f"select it in sql:, as in {shown(f'SELECT {value} AS {name}')}",
    )
