"""Conditions over one row that are answered without DuckDB, whose every answer costs as much as a thousand rows.

    code_predicate('"a" IS NOT NULL', columns)    also `"a" < "b"`, `"a" = 7`, `"a" BETWEEN 1 AND 7`; else None
    text_predicate('"name" LIKE \\'%dim%\\'')     also NOT LIKE, with `%` alone; else None
    predicate.holds(codes or texts)               1 or 0 for each row: whether the condition is true of it

The texts are those that the front end writes; DuckDB is asked about any other. Texts are mostly new, so remembering
what LIKE said about earlier ones does not help: that is why it is computed here.
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
    """Comparisons of a column, each with another column or a number; without any, whether it is NULL."""

    column: int
    is_null: bool = False
    other: int = -1
    comparisons: tuple[tuple[str, int], ...] = ()

    def holds(self, codes: Codes) -> Codes:
        """By row 1 if the condition is true, else 0."""
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
    """What a condition over columns is in codes, which are in their order; None if values have to be looked at.

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


# No `_`, and nothing that could be meant to escape.
_LIKE = re.compile(r"""("(?:[^"]|"")+")( NOT)? LIKE '((?:[^'_\\]|'')*)'""")


@record(frozen=True)
class TextPredicate:
    """What stands between the `%` of a pattern, and whether text begins or ends with it."""

    pieces: tuple[bytes, ...]
    opened: bool
    closed: bool
    is_not: bool

    def holds(self, texts: pa.Array) -> Codes:
        """By row 1 if the condition is true, else 0; NULL is neither like nor unlike."""
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
    """The pattern that a condition over one text is; None if it is another condition.

    >>> text_predicate('"a" NOT LIKE \\'x%y\\'')
    TextPredicate(pieces=(b'x', b'y'), opened=True, closed=True, is_not=True)
    """
    found = _LIKE.fullmatch(condition)
    if found is None:
        return None
    parts = found[3].replace("''", "'").split("%")
    pieces = tuple(part.encode() for part in parts if part)
    # All of a text, or any: both are rare.
    if not pieces or len(parts) == 1:
        return None
    return TextPredicate(pieces, bool(parts[0]), bool(parts[-1]), bool(found[2]))
