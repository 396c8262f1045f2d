"""What a rule is made of, as written; `str` of a node is text that parses to the same node.

`at` is where a node begins in the text. It is no part of a node's identity, so that two texts
which differ in spaces only give equal rules.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

ConstantKind = Literal["number", "string", "bool", "binary", "date", "time", "timestamp", "interval"]
ConstantValue = Decimal | str | bool | bytes | dt.date | dt.time | dt.datetime | int

ANY = "_"


@dataclass(frozen=True)
class Variable:
    """A name; `_` stands for a value that does not matter."""

    name: str
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Constant:
    """A value with the kind its notation gives it.

    Numbers are decimals, `floating` if written with an exponent. Timestamps are in UTC, without
    a zone. Intervals are microseconds. `text` is the notation.
    """

    kind: ConstantKind
    value: ConstantValue = field(compare=False)
    text: str
    floating: bool = False
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Unreadable:
    """A constant that has been reported already; whatever contains it is left out."""

    at: int = field(default=0, compare=False)


Operand = Variable | Constant | Unreadable


@dataclass(frozen=True)
class Part:
    sign: Literal[1, -1]
    operand: Operand

    @property
    def at(self) -> int:
        return self.operand.at


@dataclass(frozen=True)
class Sum:
    """One side of a comparison, or an argument: operands with their signs."""

    parts: tuple[Part, ...]
    at: int = field(default=0, compare=False)

    @property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(p.operand for p in self.parts if isinstance(p.operand, Variable))

    @property
    def only(self) -> Operand | None:
        """The operand, if the sum is nothing but one."""
        return self.parts[0].operand if len(self.parts) == 1 and self.parts[0].sign == 1 else None

    @property
    def unreadable(self) -> bool:
        return any(isinstance(p.operand, Unreadable) for p in self.parts)

    def __str__(self) -> str:
        first, *rest = self.parts
        text = f"-{first.operand}" if first.sign < 0 else str(first.operand)
        return text + "".join(f" {'-' if p.sign < 0 else '+'} {p.operand}" for p in rest)


@dataclass(frozen=True)
class Call:
    """`sum(y)`, `count()`, `count(distinct y)`, `max(x * sum(y))`; the function's name in lower case."""

    function: str
    arguments: tuple[Argument, ...]
    distinct: bool = False
    at: int = field(default=0, compare=False)

    @property
    def only(self) -> None:
        """A call is no operand."""
        return None

    @property
    def unreadable(self) -> bool:
        return any(a.unreadable for a in self.arguments)

    def __str__(self) -> str:
        return f"{self.function}({'distinct ' if self.distinct else ''}{', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Arithmetic:
    """`left op right`, op one of + - *: an argument that is more than a sum of operands."""

    left: Argument
    op: Literal["+", "-", "*"]
    right: Argument
    at: int = field(default=0, compare=False)

    @property
    def only(self) -> None:
        """Arithmetic is no operand."""
        return None

    @property
    def unreadable(self) -> bool:
        return self.left.unreadable or self.right.unreadable

    def __str__(self) -> str:
        left, right = str(self.left), str(self.right)
        if self.op == "*":
            left = f"({left})" if _adds(self.left) else left
        if _adds(self.right) or (self.op == "*" and isinstance(self.right, Arithmetic)):
            right = f"({right})"
        return f"{left} {self.op} {right}"


Argument = Sum | Call | Arithmetic


def _adds(argument: Argument) -> bool:
    """Whether an argument needs brackets around it where it is a factor, or subtracted."""
    return (isinstance(argument, Sum) and argument.only is None) or (
        isinstance(argument, Arithmetic) and argument.op != "*"
    )


@dataclass(frozen=True)
class Atom:
    relation: str
    arguments: tuple[Sum, ...]
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Comparison:
    """`left op right`, op one of = != < <= > >=; `at` is where `left` begins."""

    left: Sum
    op: str
    right: Sum
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Item:
    """An entry of the head, with the column name it was given, if any."""

    value: Sum | Call
    column: str | None = None
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.column} = {self.value}" if self.column else str(self.value)


@dataclass(frozen=True)
class Rule:
    name: str
    items: tuple[Item, ...]
    body: tuple[Atom | Comparison, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.items))}) :- {', '.join(map(str, self.body))}"
