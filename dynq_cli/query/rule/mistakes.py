"""Text that is not a rule → one problem, which says what was probably meant.

`explain` is told only where parsing stopped. It looks at the last token before that place, the
first one after it and the parenthesis that is open there. This is guesswork for messages alone:
it never accepts a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynq_cli.query.problems import TextProblem
from dynq_cli.spec.shown import shown

SHAPE = "a rule looks like: q(x, z) :- R(x, y), S(y, z), x < z"

_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z_]\w*|[0-9][\w.]*\b|:-|[<>=!]+|--|//|/\*|\S")
_SQL_START = re.compile(r"(?:\s|--[^\n]*\n)*(select|with|from|insert|update|delete|create)\b(?!\s*\()", re.IGNORECASE)
_PREDICATES = {"is", "in", "like", "ilike", "between", "similar", "case"}
_CLAUSES = {"from", "where", "join", "on", "group", "having", "order", "limit", "union", "select"}
_COMMENTS = {"#", "%", "--", "//", "/*"}


def before_parsing(text: str) -> TextProblem | None:
    """What is wrong with a text that is not even the attempt at a rule."""
    start = len(text) - len(text.lstrip())
    if start == len(text):
        return TextProblem(0, "the rule is empty", SHAPE)
    query = _SQL_START.match(text)
    if query is not None:
        return TextProblem(query.start(1), "this is SQL, not a rule", "write sql: instead of rule:")
    return None


@dataclass(frozen=True)
class _Stop:
    """The place where parsing stopped.

    `earlier`, `before`, `after` are the tokens around it, empty at the ends; `opener` is the name
    before the open parenthesis, `closed` the name before the one that was closed last.
    """

    offset: int
    earlier: str
    before: str
    before_at: int
    after: str
    open_paren: int | None
    opener: str
    closed: tuple[str, int]
    has_arrow: bool
    ended: bool

    @property
    def word(self) -> str:
        return self.after.lower() if self.after[:1].isalpha() else ""

    @property
    def ends_value(self) -> bool:
        """Whether the token before could be the end of an argument, a side or an atom."""
        return self.before == ")" or self.before[-1:] == "'" or bool(re.fullmatch(r"\w[\w.]*", self.before))


def explain(text: str, offset: int) -> TextProblem:
    """The problem of a text that parses up to `offset`."""
    stop = _look_around(text, offset)
    for guess in (_quotes, _parentheses, _at_the_end, _second_rule, _commas, _words, _symbols):
        found = guess(stop)
        if found is not None:
            return found
    return TextProblem(offset, f"{shown(stop.after)} does not belong here", SHAPE)


def _look_around(text: str, offset: int) -> _Stop:
    tokens = [(m[0], m.start()) for m in _TOKEN.finditer(text, 0, offset)]
    opened: list[tuple[int, str, int]] = []
    closed = ("", 0)
    for i, (token, at) in enumerate(tokens):
        if token == "(":
            opened.append((at, *(tokens[i - 1] if i else ("", 0))))
        elif token == ")" and opened:
            closed = opened.pop()[1:]
    before, before_at = tokens[-1] if tokens else ("", 0)
    after = _TOKEN.match(text, offset)
    return _Stop(
        offset=offset,
        earlier=tokens[-2][0] if len(tokens) > 1 else "",
        before=before,
        before_at=before_at,
        after=after[0] if after else "",
        open_paren=opened[-1][0] if opened else None,
        opener=opened[-1][1] if opened else "",
        closed=closed,
        has_arrow=any(token == ":-" for token, _ in tokens),
        ended=any(token == "." for token, _ in tokens),
    )


def _quotes(stop: _Stop) -> TextProblem | None:
    if stop.after == "'":
        return TextProblem(
            stop.offset,
            "the string that begins here has no closing quote",
            "close it with '; a quote inside a string is doubled, as in 'it''s'",
        )
    if stop.after in ('"', "`", "\u2018", "\u2019", "\u201c", "\u201d"):
        return TextProblem(
            stop.offset, f"{stop.after} is no quote of rules", "write strings as 'abc' and names without quotes"
        )
    if stop.before[-1:] == "'" and stop.word and len(stop.before) > 1 and re.search(r"[(),]", stop.before):
        return TextProblem(
            stop.before_at,
            f"a quote is not closed: the string reads {shown(stop.before)}",
            "close each string with '; a quote inside is doubled, as in 'it''s'",
        )
    return None


def _parentheses(stop: _Stop) -> TextProblem | None:
    if stop.after == "(" and re.fullmatch(r"[A-Za-z_]\w*", stop.before):
        return TextProblem(
            stop.before_at,
            f"{stop.before}(...) cannot stand here",
            "use variables, _ and constants; write functions in sql:",
        )
    if stop.after == "(":
        return TextProblem(
            stop.offset,
            "parentheses stand only around the arguments of a relation or an aggregate",
            "write the parts one after the other, as in x < y + 1",
        )
    if stop.open_paren is not None and stop.after in ("", ":-", ".", "<", "<=", ">", ">=", "!="):
        message = f"the parenthesis of {shown(stop.opener)} is not closed"
        return TextProblem(stop.open_paren, message, "write ) after the last argument")
    if stop.after == ")" and stop.open_paren is None:
        return TextProblem(stop.offset, "there is no open parenthesis to close", "remove the )")
    return None


def _at_the_end(stop: _Stop) -> TextProblem | None:
    if stop.after not in ("", "."):
        return None
    if stop.before == ":-":
        return TextProblem(stop.before_at, "the rule has no body", f"name relations after :- ; {SHAPE}")
    if stop.before == ",":
        return TextProblem(stop.before_at, "nothing follows this comma", "remove it, or write what is missing")
    if not stop.has_arrow:
        return TextProblem(stop.offset, ":- and the body are missing", SHAPE)
    if stop.before.lower() == "not":
        return TextProblem(stop.before_at, "nothing follows not", "remove it")
    if re.fullmatch(r"[<>=!+*/%-]+", stop.before):
        return TextProblem(stop.before_at, f"nothing follows {stop.before}", "write a variable or a constant after it")
    if re.fullmatch(r"\w[\w.]*|'.*'", stop.before, re.DOTALL):
        return TextProblem(
            stop.before_at,
            f"{shown(stop.before)} alone says nothing",
            "write a relation with arguments, R(x, y), or a comparison, x < 5",
        )
    return None


def _second_rule(stop: _Stop) -> TextProblem | None:
    if stop.ended:
        return TextProblem(
            stop.offset, "text after the end of the rule", "write several rules as a list: one entry per rule"
        )
    if stop.after == ":-" and stop.has_arrow:
        return TextProblem(stop.offset, "a second :- in one rule", "write several rules as a list: one entry per rule")
    return None


def _commas(stop: _Stop) -> TextProblem | None:
    if stop.after in (",", ")") and stop.before in (",", "(", ":-"):
        if stop.after == ")":
            return TextProblem(stop.before_at, "nothing follows this comma", "remove it, or write what is missing")
        return TextProblem(stop.offset, "nothing stands before this comma", "remove it, or write what is missing")
    if stop.after == "," and stop.ends_value and not stop.has_arrow and stop.open_paren is None:
        return TextProblem(stop.offset, ":- is missing between head and body", SHAPE)
    if stop.after == "," and stop.ends_value:
        return TextProblem(
            stop.before_at,
            f"{shown(stop.before)} alone says nothing",
            "write a relation with arguments, R(x, y), or a comparison, x < 5",
        )
    return None


def _words(stop: _Stop) -> TextProblem | None:
    if stop.earlier.lower() == "interval" and stop.word:
        return TextProblem(
            stop.offset, "the unit of an interval is written inside its quotes", "write it as in interval '1h 30m'"
        )
    if stop.before.lower() == "interval" and (stop.after[:1].isdigit() or stop.word):
        return TextProblem(
            stop.offset, "the length of an interval is written in quotes", "write it as in interval '1h 30m'"
        )
    if stop.before.lower() in ("date", "time", "timestamp") and stop.after[:1].isdigit():
        return TextProblem(
            stop.offset, f"a {stop.before.lower()} is written in quotes", "write it as in date '2020-01-31'"
        )
    if not stop.word or not stop.ends_value:
        return None
    if stop.word == "as":
        return TextProblem(stop.offset, "a rule names columns without as", "write the name first: total = sum(y)")
    if stop.word in _PREDICATES:
        return TextProblem(
            stop.offset,
            f"{shown(stop.after)} is SQL: rules compare with = != < <= > >=",
            "use these, or write the query in sql:",
        )
    if stop.word in _CLAUSES:
        return TextProblem(
            stop.offset, f"{shown(stop.after)} is SQL", "write the query in sql:, or as a rule without it"
        )
    if not stop.has_arrow and stop.open_paren is None:
        return TextProblem(stop.offset, ":- is missing between head and body", SHAPE)
    return _missing_comma(stop)


def _symbols(stop: _Stop) -> TextProblem | None:
    if stop.after in _COMMENTS:
        return TextProblem(stop.offset, "a rule has no comments", "write comments in the YAML around it, with #")
    if stop.after in ("[", "]", "{", "}") and stop.before:
        return TextProblem(stop.offset, f"{stop.after} is no bracket of rules", "write arguments in ( and )")
    if stop.after == ":-" and not stop.before:
        return TextProblem(stop.offset, "no head stands before :-", SHAPE)
    if not stop.has_arrow and stop.open_paren is None:
        if not stop.before:
            return TextProblem(stop.offset, f"a rule does not begin with {shown(stop.after)}", SHAPE)
        if stop.before == ")":
            return TextProblem(stop.offset, f":- is missing before {shown(stop.after)}", SHAPE)
        name = stop.before if stop.before.isidentifier() else "q"
        return TextProblem(stop.offset, "the head has no arguments", f"write {name}() for none; {SHAPE}")
    if re.fullmatch(r"[<>=!]+", stop.after) and stop.before == ")":
        name, at = stop.closed
        hint = "compare variables and constants; write functions in sql:"
        return TextProblem(at, f"{name}(...) cannot be compared", hint)
    if stop.ends_value and (stop.after[:1].isdigit() or stop.after[:1] == "'"):
        return _missing_comma(stop)
    return None


def _missing_comma(stop: _Stop) -> TextProblem:
    hint = "separate atoms, comparisons and arguments by commas"
    return TextProblem(stop.offset, f"a comma is missing before {shown(stop.after)}", hint)
