"""Evaluate simple conditions without DuckDB, one call of which takes as long as a thousand rows in the engine.

    code_predicate('"a" IS NOT NULL', columns)    also `"a" < "b"`, `"a" = 7`, `"a" BETWEEN 1 AND 7`; else None
    text_predicate('"name" LIKE \\'%dim%\\'')     also NOT LIKE, with `%` alone; else None
    predicate.holds(codes or texts)               1 or 0 for each row: whether the condition is true of it

Conditions are recognised in the form that the SQL front end writes; DuckDB evaluates all others. LIKE is evaluated here
because most texts are new, so a cache does not help.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dynq_cli.engine.changes import Codes
from dynq_cli.engine.codes import NULL, needs_labels
from dynq_cli.engine.dictionary import flat_values
from dynq_cli.engine.kernels.fields import Flags
from dynq_cli.engine.kernels.like import like_rows
from dynq_cli.records import record
from dynq_cli.spec.types import Type

_NAME, _NUMBER = r'"((?:[^"]|"")+)"', r"(-?\d{1,18})"
_NULLNESS = re.compile(rf"{_NAME} IS( NOT)? NULL")
_TWO_COLUMNS = re.compile(rf"{_NAME} (=|<>|<|<=|>|>=) {_NAME}")
_NUMBERED = re.compile(rf"{_NAME} (=|<>|<|<=|>|>=) {_NUMBER}")
_BETWEEN = re.compile(rf"{_NAME} BETWEEN {_NUMBER} AND {_NUMBER}")
_COMPARE = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@record(frozen=True)
class CodePredicate:
    """Comparisons of a column with another column or numbers; or, without comparisons, a test for NULL."""

    column: int
    is_null: bool = False
    other: int = -1
    comparisons: tuple[tuple[str, int], ...] = ()

    def holds(self, codes: Codes) -> Codes:
        """Return 1 for each row where the condition is true, else 0."""
        mine = codes[:, self.column]
        if not self.comparisons:
            null: Flags = mine == NULL
            return (null if self.is_null else ~null).astype(np.int64)
        true: Flags = mine != NULL
        for op, number in self.comparisons:
            if self.other >= 0:
                theirs = codes[:, self.other]
                true &= _COMPARE[op](mine, theirs) & (theirs != NULL)
            else:
                true &= _COMPARE[op](mine, number)
        return true.astype(np.int64)


def code_predicate(condition: str, columns: Sequence[tuple[str, Type]]) -> CodePredicate | None:
    """Translate a condition over columns to codes; None if it needs the values.

    >>> code_predicate('"a" < 7', [("a", Type("int32"))])
    CodePredicate(column=0, is_null=False, other=-1, comparisons=(('<', 7),))
    >>> code_predicate('"a" < 7', [("a", Type("string"))])
    """
    places = {name.replace('"', '""'): i for i, (name, _) in enumerate(columns)}
    if found := _NULLNESS.fullmatch(condition):
        return CodePredicate(places[found[1]], is_null=not found[2]) if found[1] in places else None
    if found := _TWO_COLUMNS.fullmatch(condition):
        if found[1] not in places or found[3] not in places:
            return None
        left, right = places[found[1]], places[found[3]]
        mine, theirs = columns[left][1], columns[right][1]
        is_same = mine == theirs or (mine.is_integer and theirs.is_integer)
        if not is_same or (needs_labels(mine) and found[2] not in ("=", "<>")):
            return None
        return CodePredicate(left, other=right, comparisons=((found[2], 0),))
    bounds: tuple[tuple[str, int], ...]
    if found := _NUMBERED.fullmatch(condition):
        bounds = ((found[2], int(found[3])),)
    elif found := _BETWEEN.fullmatch(condition):
        bounds = ((">=", int(found[2])), ("<=", int(found[3])))
    else:
        return None
    is_whole = found[1] in places and columns[places[found[1]]][1].is_integer
    return CodePredicate(places[found[1]], comparisons=bounds) if is_whole else None


# Patterns without `_` and without characters that may escape others.
_LIKE = re.compile(r"""("(?:[^"]|"")+")( NOT)? LIKE '((?:[^'_\\]|'')*)'""")


@record(frozen=True)
class TextPredicate:
    """A LIKE pattern: the pieces between `%`, and whether it starts or ends with `%`."""

    pieces: tuple[bytes, ...]
    opened: bool
    closed: bool
    is_not: bool

    def holds(self, texts: pa.Array) -> Codes:
        """Return 1 for each row where the condition is true, else 0; for NULL, neither LIKE nor NOT LIKE is true."""
        offsets, data, valid = flat_values(texts)
        found = np.empty(len(texts), np.int64)
        ends = np.cumsum([len(p) for p in self.pieces]).astype(np.int64)
        pieces = np.array(list(b"".join(self.pieces)), np.uint8)
        like_rows(offsets, data, valid, pieces, ends, self.opened, self.closed, found)
        if self.is_not:
            found ^= 1
            if len(valid):
                found &= valid
        return found


def text_predicate(condition: str) -> TextPredicate | None:
    """Parse a LIKE condition over one column; None for any other condition.

    >>> text_predicate('"a" NOT LIKE \\'x%y\\'')
    TextPredicate(pieces=(b'x', b'y'), opened=True, closed=True, is_not=True)
    """
    found = _LIKE.fullmatch(condition)
    if found is None:
        return None
    parts = found[3].replace("''", "'").split("%")
    pieces = tuple(part.encode() for part in parts if part)
    # Patterns that match a whole text, or any text, are rare: leave them to DuckDB.
    if not pieces or len(parts) == 1:
        return None
    return TextPredicate(pieces, bool(parts[0]), bool(parts[-1]), bool(found[2]))
