"""The grammar of rules, and the parser for it.

LALR(1) with a contextual lexer: no word is reserved where it cannot be mistaken (`count`, `date`
and `interval` may name variables), `x<-5` is a comparison while `q(x) <- R(x)` is a wrong arrow.
Terminals and rules named `wrong…` accept what people write by habit, so that one mistake is
reported in plain words and the rest of the text is still checked.

The parser is built at the first rule (about 30 ms) and kept.
"""

from __future__ import annotations

from functools import lru_cache

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.rule.mistakes import before_parsing, explain

GRAMMAR = r"""
rule: head (ARROW | WRONG_ARROW) body END?

head: NAME "(" [item ("," item)*] ")"
item: [NAME EQUALS] (call | sum)
call: NAME "(" [DISTINCT] [argument ("," argument)* | TIMES] ")"
argument: product ((PLUS | MINUS) product)*
product: factor ((TIMES | DIVIDE) factor)*
factor: (PLUS | MINUS)? (operand | call | "(" argument ")")

body: _literal (separator _literal)*
separator: "," | WRONG_COMMA
_literal: atom | comparison | wrong_not
wrong_not: NOT+ (atom | comparison)
atom: NAME "(" [sum ("," sum)*] ")"
comparison: sum (OPERATOR sum)+

sum: part ((PLUS | MINUS | TIMES | DIVIDE) part)*
part: (PLUS | MINUS)? operand
operand: NAME -> variable
       | NUMBER -> number
       | STRING -> string
       | NAME STRING -> typed
       | TRUTH -> truth
       | NULL -> wrong_null

NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\w*/
STRING: /'(?:[^']|'')*'/
TRUTH.2: /(?:true|false)\b/i
NULL.2: /null\b/i
NOT.2: /not\b|!(?!=)|~|¬/i
DISTINCT.2: /distinct\b/i
OPERATOR: /<=|>=|!=|<>|==|=<|=>|≤|≥|≠|[=<>]/
EQUALS: "="
ARROW.2: ":-"
WRONG_ARROW: /<-+|<=|=>|-+>|:=|:|=|←|⇐/
WRONG_COMMA.2: /and\b|or\b|;|&&?|\|\|?|[\u2227\u2228]/i
PLUS: "+"
MINUS: /[-\u2212]/
TIMES: "*"
DIVIDE: /[\/%]/
END: "."

%import common.WS
%ignore WS
"""


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, start="rule", parser="lalr", lexer="contextual", maybe_placeholders=False)


def parse_tree(text: str) -> Tree[Token]:
    """The tree of a rule's text. Raises QueryProblems where it does not parse."""
    known = before_parsing(text)
    if known is not None:
        raise QueryProblems([known])
    try:
        return _parser().parse(text)
    except UnexpectedInput as error:
        raise QueryProblems([explain(text, _offset(text, error))]) from None


def _offset(text: str, error: UnexpectedInput) -> int:
    """Where the first character stands that cannot belong to a rule; the end if text is missing."""
    if isinstance(error, UnexpectedCharacters):
        return error.pos_in_stream or 0
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        return error.token.start_pos or 0
    return len(text.rstrip())
