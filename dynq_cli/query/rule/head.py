"""The head of a rule → output columns, groups and aggregates of the draft.

Plain variables are output columns under their own name or a given one; next to aggregates they
are the groups. Aggregates without groups give one row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Decimal

from dynq_cli.query.draft import Draft, DraftAggregate, Term
from dynq_cli.query.normal_form import AggregateFunction, Factor, Monomial
from dynq_cli.query.problems import QueryProblems, TextProblem, refuse
from dynq_cli.query.rule.atoms import Bindings
from dynq_cli.query.rule.names import nearest
from dynq_cli.query.rule.syntax import ANY, Call, Constant, Item, Sum, Variable
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import FLOAT64, INT64, MAX_PRECISION, Type, decimal

_FUNCTIONS: dict[str, AggregateFunction] = {
    "sum": "sum",
    "count": "count",
    "avg": "avg",
    "min": "min",
    "max": "max",
}
_KNOWN = "sum, count, avg, min, max, count(distinct x)"


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
        function = _FUNCTIONS.get(call.function)
        if function is None:
            near = nearest(call.function, _FUNCTIONS)
            hint = f"did you mean {near}?" if near else f"the aggregates are {_KNOWN}"
            raise refuse(call.at, f"there is no aggregate {call.function}", hint)
        if not call.arguments and function == "count" and not call.distinct:
            self._add(self._column(item, "count"), "count", INT64, False)
            return
        variable = _argument(call)
        if call.distinct and function != "count":
            raise refuse(call.at, f"{function}(distinct ...) is not supported", "distinct goes with count only")
        term = self._term(variable)
        name = self._column(item, f"{function}_{'distinct_' if call.distinct else ''}{variable.name}")
        if term is None:
            return
        nullable = self._may_be_null(variable.name, term) or not self.grouped
        factor = (Monomial(Decimal(1), (Factor(term.atom, term.scalar),)),)
        if call.distinct:
            self._add(name, "count_distinct", INT64, False, term=term)
        elif function == "count":
            self._add(name, "count", INT64, False, monomials=factor)
        elif function in ("min", "max"):
            self._add(name, function, self.bindings.types[variable.name], nullable, term=term)
        elif term.scalar.type.is_numeric:
            type_ = FLOAT64 if function == "avg" else _sum_type(term.scalar.type)
            self._add(name, function, type_, nullable, monomials=factor)
        else:
            message = f"{variable.name} is {term.scalar.type}, and {function} takes numbers"
            raise refuse(variable.at, message, "use min, max or count, or another variable")

    def _add(
        self,
        name: str,
        function: AggregateFunction,
        type_: Type,
        nullable: bool,
        monomials: tuple[Monomial, ...] = (),
        term: Term | None = None,
    ) -> None:
        self.draft.output(name, DraftAggregate(name, function, type_, nullable, monomials, term))

    def _may_be_null(self, name: str, term: Term) -> bool:
        return term.scalar.nullable and len(self.bindings.terms[name]) == 1 and name not in self.compared


def _argument(call: Call) -> Variable:
    value = call.arguments[0].only if len(call.arguments) == 1 else None
    if isinstance(value, Variable) and value.name != ANY:
        return value
    if call.arguments and call.arguments[0].unreadable:
        raise QueryProblems([])
    if not call.arguments:
        raise refuse(call.at, f"{call.function} takes a variable", f"write it as in {call.function}(y)")
    raise refuse(
        call.arguments[0].at,
        f"{call.function} takes one variable, not {shown(', '.join(map(str, call.arguments)))}",
        f"write it as in {call.function}(y), or use sql: for {call.function} of an expression",
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


def _sum_type(type_: Type) -> Type:
    return FLOAT64 if type_.is_float else decimal(MAX_PRECISION, type_.scale)
