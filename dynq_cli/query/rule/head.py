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
from dynq_cli.query.aggregates.definition import Additive, Basic, Recomputed, objection
from dynq_cli.query.aggregates.ordered import in_rules, keys_of
from dynq_cli.query.draft import Draft, DraftAggregate, Expression, Term
from dynq_cli.query.normal_form import Factor, Monomial, Scalar
from dynq_cli.query.problems import QueryProblems, TextProblem, refuse
from dynq_cli.query.rule.arithmetic import Expression as Numbers
from dynq_cli.query.rule.arithmetic import expression_of, monomials_of, scalar_of
from dynq_cli.query.rule.atoms import Bindings
from dynq_cli.query.rule.names import nearest
from dynq_cli.query.rule.nested import default_name
from dynq_cli.query.rule.syntax import ANY, Argument, Arithmetic, Call, Constant, Item, Sum, Variable
from dynq_cli.query.scalar import quote, type_of_expression
from dynq_cli.spec.model import Column
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import INT64, Type


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
        if isinstance(definition, Recomputed):
            raise refuse(call.at, f"rules have no aggregate {call.function}", "write the query in SQL")
        if isinstance(definition, Additive):
            self._additive(item, call, definition)
            return
        if definition.state == "ordered" and definition.reading not in ("least", "greatest"):
            self._in_order(item, call, definition)
            return
        if not call.arguments and definition.reading == "count" and not call.distinct:
            self._add(self._column(item, definition.name), DraftAggregate("", definition.name, INT64, False))
            return
        (argument,) = _arguments(call, ("x",))
        if call.distinct and not definition.of_distinct:
            raise refuse(
                call.at, f"{definition.name}(distinct ...) is not supported", "distinct goes with count, sum and avg"
            )
        if call.distinct:
            definition = basic(definition.of_distinct)
        made = self._made(definition, call, argument)
        name = self._column(item, default_name(call))
        if made is not None:
            self._add(name, made)

    def _made(self, definition: Basic, call: Call, argument: Argument) -> DraftAggregate | None:
        """A basic aggregate of one argument; None if a reported problem hides a type."""
        variable = argument.only
        if isinstance(variable, Variable):
            term = self._term(variable)
            return None if term is None else self._basic(definition, variable, term)
        if definition.state != "sums":
            found = self._value(argument, call)
            return None if found is None else self._basic(definition, argument, found)
        expression = self._expression(argument)
        if expression is None:
            return None
        nullable = definition.reading != "count" and (
            not self.grouped or any(self._may_be_null(name, t[0]) for name, t in expression.terms.items())
        )
        kind = definition.type_of(expression.type)
        return DraftAggregate("", definition.name, kind, nullable, monomials_of(expression))

    def _expression(self, argument: Argument) -> Numbers | None:
        """Arithmetic over variables; None if a reported problem hides the type of one."""
        known = [self._term(v) for v in variables_in(argument)]
        return None if any(term is None for term in known) else expression_of(argument, self.bindings)

    def _value(self, argument: Argument, call: Call) -> Term | None:
        """The term of a variable, or of arithmetic over the columns of one atom."""
        variable = argument.only
        if isinstance(variable, Variable):
            return self._term(variable)
        expression = self._expression(argument)
        if expression is None:
            return None
        atom, scalar = scalar_of(expression, call.function)
        return self.draft.term(atom, scalar, "_".join(expression.terms))

    def _in_order(self, item: Item, call: Call, definition: Basic) -> None:
        """An aggregate that reads the values of a group in order."""
        detail = in_rules(call.function)
        if detail is None or call.distinct:
            message = f"{call.function}{'(distinct ...)' if call.distinct else ''} is not supported in rules"
            raise refuse(call.at, message, f"use sql: for {call.function}")
        given = _arguments(call, ("x", "y")[: max(1, len(keys_of(detail)) if detail.startswith("asc") else 1)])
        found = [self._value(a, call) for a in given]
        name = self._column(item, default_name(call))
        terms = tuple(term for term in found if term is not None)
        if len(terms) < len(found):
            return
        kind = self._type(given[0], terms[0])
        if call.function == "median" and objection(definition, kind) is not None:
            definition = basic("quantile_disc")
        _check_type(definition, given[0], terms[0])
        made = DraftAggregate("", definition.name, definition.type_of(kind), True, terms=terms, detail=detail)
        self._add(name, made)

    def _type(self, argument: Argument | Variable, term: Term) -> Type:
        variable = argument if isinstance(argument, Variable) else argument.only
        return self.bindings.types[variable.name] if isinstance(variable, Variable) else term.scalar.type

    def _basic(self, definition: Basic, argument: Argument | Variable, term: Term) -> DraftAggregate:
        _check_type(definition, argument, term)
        is_count = definition.reading == "count"
        missing = self._may_be_null(argument.name, term) if isinstance(argument, Variable) else term.scalar.nullable
        nullable = not is_count and (missing or not self.grouped)
        if definition.state == "sums":
            kind, monomials = definition.type_of(term.scalar.type), _monomials(term, term.scalar)
            return DraftAggregate("", definition.name, kind, nullable, monomials)
        kind = definition.type_of(self._type(argument, term))
        return DraftAggregate("", definition.name, kind, nullable, terms=(term,))

    def _add(self, name: str, aggregate: DraftAggregate) -> None:
        self.draft.output(name, replace(aggregate, name=name))

    def _additive(self, item: Item, call: Call, definition: Additive) -> None:
        if call.distinct:
            raise refuse(
                call.at, f"{definition.name}(distinct ...) is not supported", "distinct goes with count, sum and avg"
            )
        variables = _variables(call, definition.arguments)
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


def _check_type(definition: Basic | Additive, argument: Argument | Variable, term: Term) -> None:
    said = objection(definition, term.scalar.type)
    if said is None:
        return
    if term.scalar.type.is_float:
        raise refuse(argument.at, said[0], f"use sql: and {said[1].partition('; ')[2]}")
    message = f"{argument} is {term.scalar.type}, and {definition.name} takes numbers"
    raise refuse(argument.at, message, "use min, max or count, or another variable")


def variables_in(argument: Argument) -> list[Variable]:
    """The variables of an argument without aggregates."""
    if isinstance(argument, Arithmetic):
        return [*variables_in(argument.left), *variables_in(argument.right)]
    return list(argument.variables) if isinstance(argument, Sum) else []


def _variables(call: Call, names: Sequence[str]) -> list[Variable]:
    """The variables that an aggregate is given, one for each of `names`."""
    found = [a.only for a in _arguments(call, names, is_arithmetic=False)]
    return [v for v in found if isinstance(v, Variable)]


def _arguments(call: Call, names: Sequence[str], *, is_arithmetic: bool = True) -> list[Argument]:
    """What an aggregate is given, one argument for each of `names`: variables, or arithmetic over some."""
    given = list(call.arguments)
    if any(a.unreadable for a in given):
        raise QueryProblems([])
    if len(given) == len(names) and all(
        variables_in(a)
        and all(v.name != ANY for v in variables_in(a))
        and (is_arithmetic or isinstance(a.only, Variable))
        for a in given
    ):
        return given
    example = f"{call.function}({', '.join('yz'[: len(names)] if len(names) < 3 else names)})"
    many = "one variable" if len(names) == 1 else f"{len(names)} variables"
    if not call.arguments:
        takes = "a variable" if len(names) == 1 else many
        raise refuse(call.at, f"{call.function} takes {takes}", f"write it as in {example}")
    if len(given) == len(names) and is_arithmetic:
        many = "variables, and numbers beside them"
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
