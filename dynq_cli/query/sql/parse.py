"""SQL text → one sqlglot tree, with the place of every node in the text.

sqlglot keeps positions on identifiers, literals and function names only. `Places` finds the rest:
a node stands where its leftmost positioned part stands, and a clause where its keyword is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dynq_cli.query.problems import QueryProblems, TextProblem, refuse
from dynq_cli.query.scalar import ScalarError, evaluate
from dynq_cli.query.sql.shape import is_one_row

# What sqlglot would log (statements it does not know) is refused here with a message of its own.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
_SUM_OF_UNITS = re.compile(r"\s*[+-]?[0-9]+(?:\.[0-9]+)?\s*[a-zA-Z]+(?:\s+[+-]?[0-9]+(?:\.[0-9]+)?\s*[a-zA-Z]+)*\s*")
_NUMBER_AND_UNIT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?\s*[a-zA-Z]+")


class Places:
    """Offsets in one text, by node and by keyword."""

    def __init__(self, text: str, found: Iterable[Token]) -> None:
        self.text = text
        self.tokens = list(found)

    def at(self, node: exp.Expr | None) -> int:
        """Where `node` starts, or the nearest thing around it that has a place."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            return self.at(node.this)
        if isinstance(node, exp.Select) and node.expressions:
            return self.keyword(node.expressions[0], "SELECT")
        if isinstance(node, exp.Exists):
            return self.keyword(node.this, "EXISTS")
        while node is not None:
            starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
            if starts:
                return int(min(starts))
            node = node.parent
        return 0

    def keyword(self, node: exp.Expr | None, *words: str) -> int:
        """The last of `words` that stands before `node` starts, else where `node` starts."""
        here = self.at(node)
        before = [t.start for t in self.tokens if t.start <= here and t.text.upper() in words]
        return before[-1] if before else here

    def written(self, node: exp.Expr) -> tuple[str, int]:
        """The name of a function as the text has it, and its place."""
        here = self.at(node)
        index = next((i for i, t in enumerate(self.tokens) if t.start == here), 0)
        if "start" not in node.meta and index > 1 and self.tokens[index - 1].text == "(":
            index -= 2
        return (self.tokens[index].text, self.tokens[index].start) if self.tokens else ("", 0)

    def word_after(self, node: exp.Expr | None, *words: str) -> int:
        """The first of `words` at or after the start of `node`, else where `node` starts."""
        here = self.at(node)
        return next((t.start for t in self.tokens if t.start >= here and t.text.upper() in words), here)

    def says(self, node: exp.Expr, *words: str) -> bool:
        """Whether one of `words` follows `node` before the next comma, bracket or clause."""
        ends = [n.meta["end"] for n in node.walk() if "end" in n.meta]
        for token in self.tokens:
            if ends and token.start > max(ends):
                if token.text.upper() in words:
                    return True
                if token.text in (",", ")", ";"):
                    return False
        return False


def parse(text: str) -> tuple[exp.Query, Places]:
    """The one SELECT or UNION that `text` is. Raises QueryProblems."""
    dialect = DuckDB()
    try:
        found = dialect.tokenize(text)
        places = Places(text, found)
        trees = [t for t in dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(found, text) if t is not None]
    except ParseError as error:
        raise QueryProblems(_syntax(places, error)) from None
    except SqlglotError:
        raise _unreadable(text) from None
    except RecursionError:
        raise too_deep() from None
    except Exception:
        # On some malformed texts the parser fails with errors of Python's own, of any kind.
        raise refuse(0, "the SQL cannot be read", "write one SELECT in DuckDB's dialect") from None
    _refuse_cut_intervals(found)
    if not trees:
        raise refuse(0, "the SQL text is empty", "write one SELECT")
    if len(trees) > 1:
        second = places.at(trees[1])
        semicolon = max((t.start for t in found if t.text == ";" and t.start <= second), default=second)
        raise refuse(semicolon, "there are several statements", "a query is one SELECT; make each a query of its own")
    tree = trees[0]
    while isinstance(tree, exp.Subquery) and not tree.alias and set(_given(tree)) <= {"this"}:
        tree = tree.this
    if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Query):
        tree = _outer_clauses_inside(tree)
    if isinstance(tree, exp.Values):
        tree = exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree))
    if not isinstance(tree, exp.Select | exp.SetOperation):
        kind = type(tree).__name__.upper()
        start = found[0].start if found else 0
        raise refuse(start, f"{kind} is not a query", "write a SELECT over the relations of the spec")
    _place_truth_values(tree, places)
    for select in tree.find_all(exp.Select):
        _name_no_windows(select)
        if is_one_row(select) and _is_idle(select):
            select.set("limit", None)
    return tree, places


def _is_idle(select: exp.Select) -> bool:
    """Whether a LIMIT keeps a row, without an order that would say which."""
    limit = select.args.get("limit")
    many = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(many, exp.Literal) or not many.this.isdigit() or select.args.get("offset") is not None:
        return False
    return int(many.this) > 0 and select.args.get("order") is None


def _name_no_windows(select: exp.Select) -> None:
    """Put what WINDOW names where the names stand."""
    named: dict[str, exp.Window] = {}
    for window in select.args.get("windows") or ():
        _put_in(window, named)
        named[window.name.lower()] = window
    if named:
        select.set("windows", None)
        for window in select.find_all(exp.Window):
            _put_in(window, named)


def _put_in(window: exp.Window, named: dict[str, exp.Window]) -> None:
    alias = window.args.get("alias")
    known = named.get(alias.name.lower()) if alias is not None else None
    if known is None:
        return
    window.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        if not window.args.get(part) and known.args.get(part):
            given = known.args[part]
            window.set(part, [g.copy() for g in given] if isinstance(given, list) else given.copy())


def _refuse_cut_intervals(found: list[Token]) -> None:
    """sqlglot takes one number with its unit out of the text of an interval, and drops what stands around them."""
    for word, token in pairwise(found):
        if word.token_type != TokenType.INTERVAL or token.token_type != TokenType.STRING:
            continue
        parts = _NUMBER_AND_UNIT.findall(token.text)
        is_cut = len(parts) == 1 and parts[0].strip() != token.text.strip()
        if is_cut or (parts and not _SUM_OF_UNITS.fullmatch(token.text) and _is_refused(token.text)):
            message = f"the interval {token.text!r} is not a sum of numbers with units"
            raise refuse(token.start, message, "give every part its unit, as in INTERVAL '1 day 2 hours'")


def _is_refused(text: str) -> bool:
    """Whether DuckDB refuses the text of an interval."""
    import pyarrow as pa

    quoted = text.replace("'", "''")
    try:
        evaluate(pa.table({"one": [1]}), [f"CAST(INTERVAL '{quoted}' AS VARCHAR)"])
    except ScalarError:
        return True
    return False


def too_deep() -> QueryProblems:
    """What is nested deeper than can be followed."""
    return refuse(0, "the SQL is nested too deeply", "split the query, or write long lists with IN")


def _place_truth_values(tree: exp.Expr, places: Places) -> None:
    """TRUE and FALSE have no place in sqlglot; where the text has one for each, it is theirs."""
    nodes = list(tree.find_all(exp.Boolean, bfs=False))
    found = [t.start for t in places.tokens if t.text.upper() in ("TRUE", "FALSE")]
    if len(nodes) == len(found):
        for node, start in zip(nodes, found, strict=True):
            node.meta["start"] = start


def _outer_clauses_inside(tree: exp.Subquery) -> exp.Expr:
    """`(SELECT …) ORDER BY x` says what `SELECT … ORDER BY x` says."""
    inner = tree.this
    for name in ("order", "limit", "offset", "with_"):
        if tree.args.get(name) is not None and inner.args.get(name) is None:
            inner.set(name, tree.args[name])
    return inner  # type: ignore[no-any-return]


def _given(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value not in (None, [], False)]


def _syntax(places: Places, error: ParseError) -> list[TextProblem]:
    first = places.tokens[0]
    if first.text.upper() not in ("SELECT", "WITH", "FROM", "("):
        return [TextProblem(first.start, f"a query begins with SELECT, not with {first.text!r}", "write one SELECT")]
    problems = []
    for found in error.errors or [{}]:
        near = str(found.get("highlight") or "").strip()
        offset = _offset(places.text, found.get("line"), found.get("col"), near)
        message = f"the SQL cannot be read at {near!r}" if near else "the SQL ends too early"
        if offset >= places.tokens[-1].start:
            message = f"something is missing after {places.tokens[-1].text!r}"
        problems.append(TextProblem(offset, message, _hint(str(found.get("description") or ""))))
    return problems


def _hint(description: str) -> str:
    missing = re.search(r"Required (?:keyword|argument): '(\w+)' missing for <class '[\w.]*\.(\w+)'>", description)
    if missing:
        return f"complete the {missing[2].upper()}"
    expecting = re.match(r"Expect(?:ing|ed) (.+?)(?: but got.*)?$", description)
    return f"expected {expecting[1].rstrip('.')}" if expecting else "write one SELECT in DuckDB's dialect"


def _offset(text: str, line: object, column: object, highlight: str) -> int:
    """sqlglot counts lines from 1 and gives the column of the token's last character."""
    if not isinstance(line, int) or not isinstance(column, int):
        return 0
    lines = text.splitlines(keepends=True)
    start = sum(len(part) for part in lines[: line - 1])
    offset = start + column - max(len(highlight), 1)
    return max(0, min(offset, max(len(text) - 1, 0)))


def _unreadable(text: str) -> QueryProblems:
    if text.count("'") % 2:
        hint = "strings stand between single quotes; '' is a quote inside"
        return refuse(text.rfind("'"), "a string is not closed", hint)
    if text.count('"') % 2:
        return refuse(text.rfind('"'), "a quoted name is not closed", 'names may stand between double quotes: "name"')
    return refuse(0, "the SQL cannot be split into words", "look for unusual characters and open comments")
