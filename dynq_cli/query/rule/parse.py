"""Parse tree → `syntax`. Report the mistakes that the grammar accepts so that their message can be clear.

`parse(text)` gives the rule and the problems found on the way. Where a mistake leaves no doubt
about what was meant (`==`, `and`), the rule reads as if it had been written right, so that the
rest can be checked; what cannot be used is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from lark import Token, Tree

from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.rule.constants import read_number, read_string, read_truth, read_typed
from dynq_cli.query.rule.grammar import parse_tree
from dynq_cli.query.rule.syntax import (
    Argument,
    Arithmetic,
    Atom,
    Call,
    Comparison,
    Item,
    Operand,
    Part,
    Rule,
    Sum,
    Unreadable,
    Variable,
)
from dynq_cli.spec.shown import shown

Node = Tree[Token]

_PLAIN_OPERATOR = {"<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
_MEANT_OPERATOR = {"==": "=", "=<": "<=", "=>": ">="}


def parse(text: str) -> tuple[Rule, list[TextProblem]]:
    """The rule of a text. Raises QueryProblems where it does not parse at all."""
    reader = _Reader()
    return reader.rule(parse_tree(text)), reader.problems


def _at(token: Token) -> int:
    return token.start_pos or 0


def _trees(node: Node, *names: str) -> list[Node]:
    return [c for c in node.children if isinstance(c, Tree) and c.data in names]


def _tokens(node: Node, *types: str) -> list[Token]:
    return [c for c in node.children if isinstance(c, Token) and c.type in types]


class _Reader:
    def __init__(self) -> None:
        self.problems: list[TextProblem] = []

    def _report(self, at: int, message: str, hint: str) -> None:
        self.problems.append(TextProblem(at, message, hint))

    def rule(self, node: Node) -> Rule:
        for arrow in _tokens(node, "WRONG_ARROW"):
            self._report(_at(arrow), f"{shown(arrow)} does not separate head and body", "write :-")
        head, body = _trees(node, "head")[0], _trees(node, "body")[0]
        name = _tokens(head, "NAME")[0]
        return Rule(str(name), tuple(map(self._item, _trees(head, "item"))), tuple(self._body(body)))

    def _item(self, node: Node) -> Item:
        column = next(iter(_tokens(node, "NAME")), None)
        value = _trees(node, "call", "sum")[0]
        read = self._call(value) if value.data == "call" else self._sum(value)
        return Item(read, str(column) if column else None, read.at if column is None else _at(column))

    def _call(self, node: Node) -> Call:
        name = _tokens(node, "NAME")[0]
        for star in _tokens(node, "TIMES"):
            self._report(_at(star), f"rules have no {name}(*)", "write count()")
        arguments = tuple(map(self._argument, _trees(node, "argument")))
        return Call(name.lower(), arguments, bool(_tokens(node, "DISTINCT")), _at(name))

    def _argument(self, node: Node) -> Argument:
        """An argument of an aggregate: a sum of operands, or arithmetic over these and over aggregates."""
        made: Argument | None = None
        op: Literal["+", "-"] = "+"
        for child in node.children:
            if isinstance(child, Token):
                op = "-" if child.type == "MINUS" else "+"
                continue
            term = self._product(child)
            if made is None:
                made = term
            elif isinstance(made, Sum) and isinstance(term, Sum):
                turned = -1 if op == "-" else 1
                parts = (Part(cast(Literal[1, -1], turned * p.sign), p.operand) for p in term.parts)
                made = Sum((*made.parts, *parts), made.at)
            else:
                made = Arithmetic(made, op, term, made.at)
        assert made is not None
        return made

    def _product(self, node: Node) -> Argument:
        made: Argument | None = None
        for child in node.children:
            if isinstance(child, Token):
                if child.type == "DIVIDE":
                    hint = "aggregates here take +, - and *; write other arithmetic in sql:"
                    self._report(_at(child), f"rules have no {child}", hint)
                continue
            factor = self._factor(child)
            made = factor if made is None else Arithmetic(made, "*", factor, made.at)
        assert made is not None
        return made

    def _factor(self, node: Node) -> Argument:
        inner = cast(Node, node.children[-1])
        minus = _tokens(node, "MINUS")
        if inner.data == "call":
            made: Argument = self._call(inner)
        elif inner.data == "argument":
            made = self._argument(inner)
        else:
            operand = self._operand(inner)
            return Sum((Part(-1 if minus else 1, operand),), _at(minus[0]) if minus else operand.at)
        zero = Sum((Part(1, read_number("0", made.at)),), made.at)
        return Arithmetic(zero, "-", made, _at(minus[0])) if minus else made

    def _body(self, node: Node) -> Sequence[Atom | Comparison]:
        found: list[Atom | Comparison] = []
        for child in _trees(node, "separator", "atom", "comparison", "wrong_not"):
            if child.data == "atom":
                found.append(self._atom(child))
            elif child.data == "comparison":
                found += self._comparison(child)
            elif child.data == "separator":
                self._separator(child)
            else:
                self._negation(child)
        return found

    def _separator(self, node: Node) -> None:
        for token in _tokens(node, "WRONG_COMMA"):
            if token.lower() in ("or", "|", "||", "\u2228"):
                hint = "write a list of rules with one head: their union"
                self._report(_at(token), f"a rule has no {token}: all parts of its body hold together", hint)
            else:
                self._report(_at(token), f"{shown(token)} does not separate the parts of a body", "write a comma")

    def _negation(self, node: Node) -> None:
        token = _tokens(node, "NOT")[0]
        if _trees(node, "atom"):
            hint = "write the query in sql:, with NOT EXISTS (SELECT ...)"
        else:
            hint = "write the opposite comparison, as in x != y"
        self._report(_at(token), "rules have no negation", hint)

    def _atom(self, node: Node) -> Atom:
        name = _tokens(node, "NAME")[0]
        return Atom(str(name), tuple(map(self._sum, _trees(node, "sum"))), _at(name))

    def _comparison(self, node: Node) -> Sequence[Comparison]:
        sides = list(map(self._sum, _trees(node, "sum")))
        operators = _tokens(node, "OPERATOR")
        if len(operators) > 1:
            first, second, third = sides[:3]
            hint = f"write {shown(f'{first} {operators[0]} {second}, {second} {operators[1]} {third}')}"
            readable = not (first.unreadable or second.unreadable or third.unreadable)
            self._report(_at(operators[1]), "comparisons cannot be chained", hint if readable else "separate them by ,")
            return []
        token = operators[0]
        op = _PLAIN_OPERATOR.get(token, str(token))
        meant = _MEANT_OPERATOR.get(op)
        if meant is not None:
            self._report(_at(token), f"there is no comparison {token}", f"write {meant}")
        left, right = sides
        return [Comparison(left, meant or op, right, left.at)]

    def _sum(self, node: Node) -> Sum:
        parts: list[Part] = []
        sign = 1
        starts: list[int] = []
        for child in node.children:
            if isinstance(child, Token):
                if child.type in ("TIMES", "DIVIDE"):
                    hint = "only a constant may be added or subtracted; write other arithmetic in sql:"
                    self._report(_at(child), f"rules have no {child}", hint)
                    parts.append(Part(1, Unreadable(_at(child))))
                sign = -1 if child.type == "MINUS" else 1
            else:
                inner = _tokens(child, "PLUS", "MINUS")
                starts += [_at(t) for t in inner]
                own = sign * (-1 if any(t.type == "MINUS" for t in inner) else 1)
                operand = self._operand(cast(Node, child.children[-1]))
                starts.append(operand.at)
                parts.append(Part(cast(Literal[1, -1], own), operand))
        return Sum(tuple(parts), min(starts))

    def _operand(self, node: Node) -> Operand:
        tokens = [c for c in node.children if isinstance(c, Token)]
        first = tokens[0]
        at = _at(first)
        try:
            if node.data == "variable":
                return Variable(str(first), at)
            if node.data == "number":
                return read_number(str(first), at)
            if node.data == "string":
                return read_string(str(first), at)
            if node.data == "truth":
                return read_truth(str(first), at)
            if node.data == "typed":
                return read_typed(str(first), at, str(tokens[1]), _at(tokens[1]))
            self._report(
                at,
                "NULL equals nothing and satisfies no comparison",
                "write _ for a column that does not matter, or IS NULL in sql:",
            )
        except QueryProblems as found:
            self.problems += found.problems
        return Unreadable(at)
