"""The pieces of HTML that the report and the pages of `dynq serve` share: a whole document, rows as a table.

document("dynq: shop", body)      complete in itself: no network, no script
rows_table(batches, names)        values as results are written; NULL in grey
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from dynq_cli.io.results.lines import json_lines
from dynq_cli.session.report_style import STYLE

# Longer texts are cut; their title has up to this many characters.
_LONGEST, _TITLE = 80, 2000
Row = dict[str, Any]


def document(title: str, body: Iterable[str]) -> str:
    """A page of HTML in UTF-8."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def rows_in(batches: Iterable[pa.RecordBatch], most: int) -> list[Row]:
    """Return at most so many rows, with values as JSON lines have them."""
    found: list[Row] = []
    for batch in batches:
        lines = bytes(json_lines(batch.slice(0, most - len(found)))).decode().splitlines()
        found += map(json.loads, lines)
        if len(found) >= most:
            break
    return found


def rows_table(rows: Sequence[Row], names: Sequence[str], more: Callable[[Row], str] | None = None) -> str:
    """Rows under the names of their columns; `more` is the HTML of a last cell."""
    if not rows:
        return '<p class="quiet">no rows</p>'
    head = "".join(f"<th>{escape(name)}</th>" for name in names) + ("<th></th>" if more else "")
    lines = []
    for row in rows:
        cells = "".join(_cell(row.get(name)) for name in names)
        lines.append(f"<tr>{cells}{f'<td>{more(row)}</td>' if more else ''}</tr>")
    return _table(f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>")


def _table(inside: str) -> str:
    return f'<div class="wide"><table class="rows">{inside}</table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return '<td class="quiet">NULL</td>'
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    kind = ' class="n"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    if len(text) <= _LONGEST:
        return f"<td{kind}>{escape(text)}</td>"
    return f'<td{kind} title="{escape(text[:_TITLE])}">{escape(text[: _LONGEST - 1])}…</td>'


def derivations(found: pa.Table) -> str:
    """The base rows that make a row: a table per derivation."""
    parts: list[str] = []
    rows = found.to_pylist()
    for number in dict.fromkeys(row["_derivation"] for row in rows):
        used = [row for row in rows if row["_derivation"] == number]
        lines = "".join(
            f"<tr><td>{escape(row['_relation'])}</td><td class=n>{_alias(row)}</td>"
            f"<td><code class=row>{escape(row['row'])}</code></td></tr>"
            for row in used
        )
        parts.append(_table(f"<tbody>{lines}</tbody>"))
    return '<p class="quiet">and</p>'.join(parts)


def _alias(row: Row) -> str:
    return "" if row["_atom"] == row["_relation"] else f"as {escape(row['_atom'])}"
