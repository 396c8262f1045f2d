"""What a formula is made of, as written. Atoms and comparisons are those of rules.

`at` is where a node begins in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from dynq_cli.query.rule.syntax import Atom, Comparison, Variable


@dataclass(frozen=True)
class Count:
    """What a counting quantifier asks of the number n of values: `at_least`, `at_most`, `exactly` number, or n mod
    `modulus` = number."""

    kind: Literal["at_least", "at_most", "exactly", "mod"]
    number: int
    modulus: int = 0

    def holds(self, n: int) -> bool:
        if self.kind == "mod":
            return n % self.modulus == self.number
        return {"at_least": n >= self.number, "at_most": n <= self.number, "exactly": n == self.number}[self.kind]

    def over(self, n: str) -> str:
        """The condition as SQL over an expression."""
        if self.kind == "mod":
            return f"{n} % {self.modulus} = {self.number}"
        return f"{n} {({'at_least': '>=', 'at_most': '<=', 'exactly': '='})[self.kind]} {self.number}"


@dataclass(frozen=True)
class Not:
    body: Formula
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class And:
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Implies:
    left: Formula
    right: Formula


@dataclass(frozen=True)
class Iff:
    left: Formula
    right: Formula


@dataclass(frozen=True)
class Exists:
    variables: tuple[Variable, ...]
    body: Formula
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ForAll:
    variables: tuple[Variable, ...]
    body: Formula
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Counted:
    """How many values of `variable` satisfy `body`."""

    count: Count
    variable: Variable
    body: Formula
    at: int = field(default=0, compare=False)


Formula = Atom | Comparison | Not | And | Or | Implies | Iff | Exists | ForAll | Counted


@dataclass(frozen=True)
class Definition:
    """`name(x, y) := formula`."""

    name: str
    head: tuple[Variable, ...]
    formula: Formula


def children(formula: Formula) -> tuple[Formula, ...]:
    if isinstance(formula, And | Or):
        return formula.parts
    if isinstance(formula, Implies | Iff):
        return (formula.left, formula.right)
    if isinstance(formula, Not | Exists | ForAll | Counted):
        return (formula.body,)
    return ()


def quantified(formula: Formula) -> tuple[Variable, ...]:
    """The variables that a formula's outermost quantifier binds."""
    if isinstance(formula, Exists | ForAll):
        return formula.variables
    return (formula.variable,) if isinstance(formula, Counted) else ()


def walk(formula: Formula) -> Iterator[Formula]:
    """Every subformula, the whole first."""
    yield formula
    for child in children(formula):
        yield from walk(child)


def variables_of(leaf: Atom | Comparison) -> tuple[Variable, ...]:
    """The variables that an atom or a comparison names, `_` among them."""
    sums = leaf.arguments if isinstance(leaf, Atom) else (leaf.left, leaf.right)
    return tuple(v for s in sums for v in s.variables)
