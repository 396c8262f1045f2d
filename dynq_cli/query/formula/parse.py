"""Text → `syntax`: a parser by recursive descent, from what binds least to what binds most.

    definition  name(x, …) := formula
    formula     implication (<-> implication)*
    implication disjunction [-> implication]
    disjunction conjunction (or conjunction)*
    conjunction unary (and unary)*
    unary       not unary | quantifier x, …: formula | (formula) | atom | comparison

A quantifier reaches as far to the right as it can. A text that does not parse has one problem, at the first token that
does not belong there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dynq_cli.query.formula.syntax import (
    And,
    Count,
    Counted,
    Definition,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
)
from dynq_cli.query.problems import QueryProblems, refuse
from dynq_cli.query.rule.constants import read_number, read_string, read_truth, read_typed
from dynq_cli.query.rule.syntax import Atom, Comparison, Operand, Part, Sum, Variable
from dynq_cli.spec.shown import shown

SHAPE = "a formula looks like: q(x) := R(x) and forall y: S(x, y) -> T(y)"
COUNTING = "write exists>=2 y: …, exists=1 y: … or exists[0 mod 2] y: …"
MOST = 10**9

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^']|'')*')
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\w*)
    | (?P<symbol>:=|:-|<->|<=>|<=|>=|!=|<>|==|->|=>|&&|\|\||[()\[\],:=<>+\-!~&|¬∧\u2228∀∃→↔≤≥≠−.*/%])
    )""",
    re.VERBOSE,
)
_OPERATORS = {
    "=": "=",
    "!=": "!=",
    "<>": "!=",
    "≠": "!=",
    "<": "<",
    "<=": "<=",
    "≤": "<=",
    ">": ">",
    ">=": ">=",
    "≥": ">=",
}
_MEANT = {
    "&": "and", "&&": "and", "∧": "and", "|": "or", "||": "or", "\u2228": "or", "!": "not", "~": "not", "¬": "not",
    "=>": "->", "→": "->", "<=>": "<->", "↔": "<->", "∀": "forall", "∃": "exists", "==": "=", ":-": ":=",
}  # fmt: skip
KEYWORDS = frozenset({"and", "or", "not", "exists", "forall"})
_COUNTS = {">=": "at_least", "≥": "at_least", "<=": "at_most", "≤": "at_most", "=": "exactly"}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The keyword that it is, in lower case; nothing if it is none."""
        return self.text.lower() if self.kind == "name" and self.text.lower() in KEYWORDS else ""


def parse(text: str) -> Definition:
    """The definition that a text is. Raises QueryProblems where it is none."""
    return _Parser(_tokens(text)).definition()


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    end = len(text.rstrip())
    if not end:
        raise refuse(0, "the formula is empty", SHAPE)
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            if text[at] == "'":
                raise refuse(at, "this string has no closing quote", "write '' for a quote within a string")
            raise refuse(at, f"{shown(text[at])} does not belong here", SHAPE)
        kind = match.lastgroup or ""
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", end)]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.place = 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def take(self) -> _Token:
        token = self.next
        self.place += token.kind != "end"
        return token

    def takes(self, symbol: str) -> bool:
        """Whether the next token is this symbol, which is then taken."""
        found = self.next.kind == "symbol" and self.next.text == symbol
        self.place += found
        return found

    def wrong(self, expected: str, hint: str = SHAPE) -> QueryProblems:
        token = self.next
        if token.kind == "end":
            return refuse(token.at, f"the formula ends where {expected} should stand", hint)
        meant = _MEANT.get(token.text)
        if meant is not None and token.kind == "symbol":
            return refuse(token.at, f"formulas have no {token.text}", f"write {meant}")
        return refuse(token.at, f"{shown(token.text)} stands where {expected} should stand", hint)

    def expect(self, symbol: str, hint: str = SHAPE) -> None:
        if not self.takes(symbol):
            raise self.wrong(shown(symbol), hint)

    def definition(self) -> Definition:
        if self.next.word or self.next.kind != "name":
            raise self.wrong("the name of the query", SHAPE)
        name = self.take()
        self.expect("(")
        head = () if self.takes(")") else self.variables(")")
        self.expect(":=")
        formula = self.formula()
        self.takes(".")
        if self.next.kind != "end":
            raise self.wrong("the end, or and, or, -> or <->,")
        return Definition(name.text, head, formula)

    def variables(self, closing: str) -> tuple[Variable, ...]:
        """Names with commas between them, and what closes the list."""
        found = [self.variable()]
        while self.takes(","):
            found.append(self.variable())
        if not self.takes(closing):
            raise self.wrong(f"a comma or {shown(closing)}")
        return tuple(found)

    def variable(self) -> Variable:
        if self.next.kind != "name" or self.next.word:
            raise self.wrong("a variable")
        token = self.take()
        if token.text == "_":
            raise refuse(token.at, "_ stands for a value that does not matter", "give it a name here")
        return Variable(token.text, token.at)

    def formula(self) -> Formula:
        left = self.implication()
        while self.takes("<->"):
            left = Iff(left, self.implication())
        return left

    def implication(self) -> Formula:
        left = self.disjunction()
        return Implies(left, self.implication()) if self.takes("->") else left

    def disjunction(self) -> Formula:
        parts = self.several("or", self.conjunction)
        return parts[0] if len(parts) == 1 else Or(parts)

    def conjunction(self) -> Formula:
        parts = self.several("and", self.unary)
        return parts[0] if len(parts) == 1 else And(parts)

    def several(self, word: str, one: Callable[[], Formula]) -> tuple[Formula, ...]:
        parts = [one()]
        while self.next.word == word:
            self.take()
            parts.append(one())
        return tuple(parts)

    def unary(self) -> Formula:
        token = self.next
        if token.word == "not":
            self.take()
            return Not(self.unary(), token.at)
        if token.word in ("exists", "forall"):
            return self.quantifier()
        if token.kind == "symbol" and token.text == "(":
            self.take()
            inner = self.formula()
            self.expect(")", "close the parenthesis, or join what follows by and, or, -> or <->")
            return inner
        following = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if token.kind == "name" and not token.word and following.text == "(" and following.kind == "symbol":
            return self.atom()
        return self.comparison()

    def quantifier(self) -> Formula:
        token = self.take()
        count = self.count() if token.word == "exists" else None
        if count is None and self.next.kind == "symbol" and self.next.text in (">=", "<=", "=", "<", ">", "["):
            raise self.wrong("a variable", COUNTING)
        variables = self.variables(":")
        body = self.formula()
        if count is None:
            return (Exists if token.word == "exists" else ForAll)(variables, body, token.at)
        if len(variables) > 1:
            at = variables[1].at
            raise refuse(at, "a counting quantifier counts the values of one variable", "write one quantifier for each")
        return Counted(count, variables[0], body, token.at)

    def count(self) -> Count | None:
        """What stands right after `exists`: `>=2`, `=1` or `[0 mod 2]`."""
        if self.takes("["):
            number = self.number()
            if self.next.text.lower() != "mod":
                raise self.wrong("mod", COUNTING)
            self.take()
            at = self.next.at
            modulus = self.number()
            self.expect("]", COUNTING)
            if modulus < 1 or number >= modulus:
                raise refuse(at, f"no number is {number} modulo {modulus}", "the rest is less than the modulus")
            return Count("mod", number, modulus)
        for symbol, kind in _COUNTS.items():
            if self.takes(symbol):
                return Count(kind, self.number())  # type: ignore[arg-type]
        return None

    def number(self) -> int:
        token = self.next
        if token.kind != "number" or not token.text.isdigit() or int(token.text) > MOST:
            raise self.wrong("a number of values", COUNTING)
        self.take()
        return int(token.text)

    def atom(self) -> Atom:
        name = self.take()
        self.expect("(")
        arguments: list[Sum] = []
        if not self.takes(")"):
            arguments.append(self.sum())
            while self.takes(","):
                arguments.append(self.sum())
            if not self.takes(")"):
                raise self.wrong("a comma or )")
        return Atom(name.text, tuple(arguments), name.at)

    def comparison(self) -> Comparison:
        left = self.sum()
        operator = _OPERATORS.get(self.next.text) if self.next.kind == "symbol" else None
        if operator is None:
            raise self.wrong("= != < <= > or >=", SHAPE)
        self.take()
        return Comparison(left, operator, self.sum(), left.at)

    def sum(self) -> Sum:
        at, sign = self.next.at, 1
        if self.takes("-") or self.takes("−"):
            sign = -1
        parts = [self.part(sign)]
        while self.next.kind == "symbol" and self.next.text in ("+", "-", "−"):
            sign = 1 if self.take().text == "+" else -1
            parts.append(self.part(sign))
        return Sum(tuple(parts), at)

    def part(self, sign: int) -> Part:
        return Part(1 if sign > 0 else -1, self.operand())

    def operand(self) -> Operand:
        token = self.next
        if token.kind == "number":
            return read_number(self.take().text, token.at)
        if token.kind == "string":
            return read_string(self.take().text, token.at)
        if token.kind != "name" or token.word:
            raise self.wrong("a relation, a variable or a constant")
        self.take()
        if self.next.kind == "string":
            quoted = self.take()
            return read_typed(token.text, token.at, quoted.text, quoted.at)
        if token.text.lower() in ("true", "false"):
            return read_truth(token.text, token.at)
        if token.text.lower() == "null":
            raise refuse(token.at, "NULL is no value of a formula", "write _ for a column that does not matter")
        return Variable(token.text, token.at)
