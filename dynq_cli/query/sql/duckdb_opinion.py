"""What DuckDB itself says of a text: the dialect is its own, and sqlglot reads more than it does.

The text is bound, not run, over relations without rows.
"""

from __future__ import annotations

import re

from dynq_cli.query.problems import QueryProblems, refuse
from dynq_cli.query.scalar import ScalarError, quote, type_of_expression
from dynq_cli.query.sql.parse import Places
from dynq_cli.spec.model import Spec

_NEAR = re.compile(r'syntax error at or near "(.*)"', re.DOTALL)


def objection(text: str, spec: Spec) -> str:
    """Why DuckDB would not run the text over the spec's relations; empty if it would."""
    relations = [
        f"{quote(r.name)} AS (SELECT {', '.join(f'CAST(NULL AS {c.type.sql}) AS {quote(c.name)}' for c in r.columns)})"
        for r in spec.relations
    ]
    heading = f"WITH {', '.join(relations)} " if relations else ""
    try:
        type_of_expression(f"EXISTS ({heading}SELECT * FROM (\n{text.rstrip().rstrip(';')}\n) AS q)", ())
    except ScalarError as error:
        return str(error).rstrip(".!")
    return ""


def is_syntax(said: str) -> bool:
    """Whether an objection is to how the text is written, so that nothing else can be said of it."""
    return said.startswith("syntax error")


def refused(said: str, places: Places, spec: Spec) -> QueryProblems:
    """The objection as a problem, at the place it is about."""
    near = _NEAR.match(said)
    if near is None:
        return refuse(0, f"DuckDB does not accept the SQL: {said}", "correct it so that DuckDB would run it")
    at = _first_wrong(near[1], places, spec)
    hint = "check the words and brackets around it; a name that is a word of SQL needs double quotes"
    return refuse(at, f"the SQL cannot be read at {near[1]!r}", hint)


def _first_wrong(word: str, places: Places, spec: Spec) -> int:
    """The first `word` up to which the text is already wrong: DuckDB names the word, not its place."""
    for token in places.tokens:
        written = places.text[token.start : token.end + 1]
        if written == word and objection(places.text[: token.end + 1], spec) == f'syntax error at or near "{word}"':
            return token.start
    return max(len(places.text.rstrip()) - 1, 0)
