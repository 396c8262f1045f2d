"""The first rows of a result as a text table for a terminal.

Columns are aligned, numbers to the right; NULL is spelled out. Long values are cut and control characters shown as
escapes, so that no value can break the table or steer the terminal. It is made to be looked at, not to be read in.
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

_WIDEST = 40
_GAP = "  "


@dataclass(frozen=True)
class Shown:
    """A table's text, the rows it has, and whether the result has more."""

    text: str
    rows: int
    has_more: bool


def text_table(batches: Iterator[pa.RecordBatch], schema: pa.Schema, most: int) -> Shown:
    """At most `most` rows as a table. O(most)."""
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
    lines = [_GAP.join(line).rstrip() for line in zip(*columns, strict=True)]
    return Shown("\n".join(lines), rows, has_more)


def _aligned(cells: Sequence[str], to_the_right: bool) -> list[str]:
    """A column's lines: its name, a rule, its values."""
    widths = [_width(cell) for cell in cells]
    widest = max(widths)
    gaps = [" " * (widest - width) for width in widths]
    lines = [gap + cell if to_the_right else cell + gap for cell, gap in zip(cells, gaps, strict=True)]
    return [lines[0], "─" * widest, *lines[1:]]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _clipped(text: str) -> str:
    text = visible(text[: _WIDEST + 1])
    if _width(text) <= _WIDEST:
        return text
    while _width(text) >= _WIDEST:
        text = text[:-1]
    return text + "…"


def _width(text: str) -> int:
    """The cells of a terminal that a text takes."""
    return len(text) if text.isascii() else sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
