"""What an aggregate of a rule is taken of: a variable, or numbers that are added and multiplied.

scalar_of        SQL over the columns of one atom that has all variables
monomials_of     Σ coefficient · Π variables, of any atoms
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from dynq_cli.query.draft import Term
from dynq_cli.query.normal_form import Factor, Monomial, Scalar
from dynq_cli.query.problems import QueryProblems, refuse
from dynq_cli.query.rule.atoms import Bindings
from dynq_cli.query.rule.syntax import Argument, Arithmetic, Constant, Sum, Variable
from dynq_cli.query.scalar import ScalarError, quote, type_of_expression
from dynq_cli.spec.model import Column
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import Type

MOST_TERMS = 256


@dataclass(frozen=True)
class Expression:
    """An argument whose variables are known numbers; `terms` are those of each variable."""

    argument: Argument
    terms: dict[str, list[Term]]

    @property
    def at(self) -> int:
        return self.argument.at

    @property
    def type(self) -> Type:
        """The type that DuckDB gives it. Raises QueryProblems."""
        columns = [Column(name, several[0].scalar.type, True) for name, several in self.terms.items()]
        sql = _sql(self.argument, {name: quote(name) for name in self.terms})
        try:
            return type_of_expression(sql, columns)
        except ScalarError as error:
            raise refuse(self.at, f"{shown(str(self.argument))}: {error}", "use sql:, and cast the numbers") from None

    def __str__(self) -> str:
        return str(self.argument)


def expression_of(argument: Argument, bindings: Bindings) -> Expression:
    """An argument as an expression. Raises QueryProblems where it is none of numbers."""
    terms: dict[str, list[Term]] = {}
    for operand in _operands(argument):
        if isinstance(operand, Constant):
            if not isinstance(operand.value, Decimal) or operand.floating:
                said = "has an exponent" if isinstance(operand.value, Decimal) else "is no number"
                hint = "write digits, as in 0.001" if operand.floating else "use sql:"
                raise refuse(operand.at, f"{shown(str(operand))} {said}", hint)
        elif isinstance(operand, Variable):
            several = bindings.terms[operand.name]
            kind = bindings.types[operand.name]
            if not kind.is_numeric:
                message = f"{operand.name} is {kind}, and {shown(str(argument))} is of numbers"
                raise refuse(operand.at, message, "use another variable, or sql:")
            terms[operand.name] = several
        else:
            raise QueryProblems([])
    if not terms:
        raise refuse(argument.at, f"{shown(str(argument))} is a constant", "name a variable")
    return Expression(argument, terms)


def _operands(argument: Argument) -> Iterator[object]:
    if isinstance(argument, Arithmetic):
        yield from (*_operands(argument.left), *_operands(argument.right))
    elif isinstance(argument, Sum):
        yield from (p.operand for p in argument.parts)


def scalar_of(expression: Expression, function: str) -> tuple[int, Scalar]:
    """The atom that has all variables, and the expression over its columns. Raises QueryProblems where none has."""
    held = [{t.atom for t in several} for several in expression.terms.values()]
    atoms = set.intersection(*held)
    if not atoms:
        message = f"no atom of the body has all variables of {shown(str(expression))}"
        raise refuse(expression.at, message, f"{function} takes an expression over one atom; sum and avg over several")
    atom = min(atoms)
    used = {name: next(t for t in several if t.atom == atom) for name, several in expression.terms.items()}
    sql = f"({_sql(expression.argument, {name: t.scalar.sql for name, t in used.items()})})"
    columns = tuple(dict.fromkeys(c for t in used.values() for c in t.scalar.columns))
    return atom, Scalar(sql, expression.type, any(t.scalar.nullable for t in used.values()), columns)


def monomials_of(expression: Expression) -> tuple[Monomial, ...]:
    """The expression multiplied out. Raises QueryProblems where it has too many terms."""
    found = _expanded(expression.argument, expression.terms)
    if len(found) > MOST_TERMS:
        message = f"multiplied out, {shown(str(expression))} has more than {MOST_TERMS} terms"
        raise refuse(expression.at, message, "take the aggregate of its parts, or use sql:")
    return tuple(found)


def _expanded(argument: Argument, terms: dict[str, list[Term]]) -> list[Monomial]:
    if isinstance(argument, Sum):
        made = []
        for part in argument.parts:
            operand = part.operand
            if isinstance(operand, Variable):
                term = terms[operand.name][0]
                made.append(Monomial(Decimal(part.sign), (Factor(term.atom, term.scalar),)))
            elif isinstance(operand, Constant) and isinstance(operand.value, Decimal):
                made.append(Monomial(part.sign * operand.value, ()))
        return made
    assert isinstance(argument, Arithmetic)
    left, right = _expanded(argument.left, terms), _expanded(argument.right, terms)
    if argument.op == "*":
        if len(left) * len(right) > MOST_TERMS:
            return left * (MOST_TERMS + 1)
        return [Monomial(a.coefficient * b.coefficient, a.factors + b.factors) for a in left for b in right]
    sign = -1 if argument.op == "-" else 1
    return [*left, *(Monomial(sign * m.coefficient, m.factors) for m in right)]


def _sql(argument: Argument, names: dict[str, str]) -> str:
    """The argument in SQL."""
    if isinstance(argument, Sum):
        text = ""
        for part in argument.parts:
            sign = "- " if part.sign < 0 else "+ " if text else ""
            operand = part.operand
            text += f" {sign}{names[operand.name] if isinstance(operand, Variable) else operand}"
        return text.strip()
    assert isinstance(argument, Arithmetic)
    return f"({_sql(argument.left, names)}) {argument.op} ({_sql(argument.right, names)})"
