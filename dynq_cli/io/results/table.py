"""The first rows of a result as a text table for a terminal.

Columns are aligned, numbers to the right; NULL is spelled out. Long values are cut and control characters shown as
escapes, so that no value can break the table or steer the terminal. It is made to be looked at, not to be read in.

A table that is wider than the terminal has its texts cut further, numbers never; if that is not enough, it shows the
first columns and the last one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.io.results.lines import pieces
from dynq_cli.io.results.multiplicity import limit
from dynq_cli.io.results.texts import texts
from dynq_cli.spec.shown import visible

_WIDEST, _NARROWEST = 40, 10
_GAP = "  "
_LEFT_OUT = "…"


@dataclass(frozen=True)
class Shown:
    """A table's text, the rows it has, whether the result has more, and how many columns are left out."""

    text: str
    rows: int
    has_more: bool
    left_out: int = 0


def text_table(batches: Iterator[pa.RecordBatch], schema: pa.Schema, most: int, width: int | None = None) -> Shown:
    """At most `most` rows as a table, not wider than `width`. O(most)."""
    cells: list[list[str]] = [[_clipped(name)] for name in schema.names]
    rows = 0
    for batch in limit(batches, most + 1):
        for piece in pieces(batch.slice(0, most - rows)):
            for column, values in zip(cells, piece.columns, strict=True):
                column += ["NULL" if v is None else _clipped(v) for v in texts(values).to_pylist()]
        rows += batch.num_rows
    has_more, rows = rows > most, min(rows, most)
    if not cells:
        return Shown("\n".join(["()"] * rows) or "no rows", rows, has_more)
    columns = [_aligned(column, _is_number(kind)) for column, kind in zip(cells, schema.types, strict=True)]
    left_out = 0
    if width is not None and _total(columns) > width:
        columns = _narrowed(cells, schema.types, width)
        columns, left_out = _first_and_last(columns, width)
    lines = [_GAP.join(line).rstrip() for line in zip(*columns, strict=True)]
    return Shown("\n".join(lines), rows, has_more, left_out)


def _total(columns: Sequence[list[str]]) -> int:
    """The cells of a terminal that a line takes."""
    return sum(len(column[1]) for column in columns) + len(_GAP) * (len(columns) - 1)


def _narrowed(cells: Sequence[list[str]], kinds: Sequence[pa.DataType], width: int) -> list[list[str]]:
    """The columns with texts cut as far as it takes to fit, and no further than to `_NARROWEST`."""
    widths = [max(map(_width, column)) for column in cells]
    is_text = [not _is_number(kind) for kind in kinds]
    room = width - len(_GAP) * (len(cells) - 1)

    def taken(widest: int) -> int:
        return sum(min(w, widest) if text else w for w, text in zip(widths, is_text, strict=True))

    widest = next((w for w in range(_WIDEST, _NARROWEST, -1) if taken(w) <= room), _NARROWEST)
    return [
        _aligned([_clipped(cell, widest) for cell in column] if text else column, not text)
        for column, text in zip(cells, is_text, strict=True)
    ]


def _first_and_last(columns: list[list[str]], width: int) -> tuple[list[list[str]], int]:
    """As many columns as fit, and how many do not: at least the first, and the last, which has the copies."""
    if _total(columns) <= width:
        return columns, 0
    gap = [_LEFT_OUT] * len(columns[0])
    first = next((n for n in range(len(columns) - 2, 0, -1) if _total([*columns[:n], gap, columns[-1]]) <= width), 1)
    return [*columns[:first], gap, columns[-1]], max(len(columns) - first - 1, 0)


def _aligned(cells: Sequence[str], to_the_right: bool) -> list[str]:
    """A column's lines: its name, a rule, its values."""
    widths = [_width(cell) for cell in cells]
    widest = max(widths)
    gaps = [" " * (widest - width) for width in widths]
    lines = [gap + cell if to_the_right else cell + gap for cell, gap in zip(cells, gaps, strict=True)]
    return [lines[0], "─" * widest, *lines[1:]]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _clipped(text: str, widest: int = _WIDEST) -> str:
    text = visible(text[: widest + 1])
    if _width(text) <= widest:
        return text
    while _width(text) >= widest:
        text = text[:-1]
    return text + "…"


def _width(text: str) -> int:
    """The cells of a terminal that a text takes."""
    return len(text) if text.isascii() else sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
