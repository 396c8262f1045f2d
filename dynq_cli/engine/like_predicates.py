"""LIKE and NOT LIKE with `%` alone, without DuckDB: texts are mostly new, so that what was said of others is no help.

pattern_of('"name" LIKE \\'%dim%\\'')    None for any other condition
pattern.holds(texts)                   1 or 0 for each: whether the condition is true of it
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from dynq_cli.engine.changes import Codes
from dynq_cli.engine.dictionary import flat_values
from dynq_cli.engine.kernels.like import like_rows
from dynq_cli.records import record

# No `_`, and nothing that could be meant to escape.
_LIKE = re.compile(r"""("(?:[^"]|"")+")( NOT)? LIKE '((?:[^'_\\]|'')*)'""")


@record(frozen=True)
class Pattern:
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


def pattern_of(condition: str) -> Pattern | None:
    """The pattern that a condition over one text is; None if it is another condition.

    >>> pattern_of('"a" NOT LIKE \\'x%y\\'')
    Pattern(pieces=(b'x', b'y'), opened=True, closed=True, is_not=True)
    """
    found = _LIKE.fullmatch(condition)
    if found is None:
        return None
    parts = found[3].replace("''", "'").split("%")
    pieces = tuple(part.encode() for part in parts if part)
    # All of a text, or any: both are rare.
    if not pieces or len(parts) == 1:
        return None
    return Pattern(pieces, bool(parts[0]), bool(parts[-1]), bool(found[2]))
