"""The pages of `dynq serve` about one result, without scripts: rows by page, what changed, why a row is there.

    GET /pages/Q          ?offset &where &at     a page of rows, in the order of the query
    GET /pages/Q/diff     ?since                 what came and went since a version or mark
    GET /pages/Q/why      ?row &at &offset       the base rows that make a row

What is refused is a page too, with the message and the status of the JSON interface.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from urllib.parse import urlencode

import pyarrow as pa

from dynq_cli.errors import DynqError
from dynq_cli.io.results.multiplicity import limit
from dynq_cli.io.results.row import row_of
from dynq_cli.io.results.where import equalities
from dynq_cli.session.report_html import Row, derivations, document, rows_in, rows_table
from dynq_cli.session.why import why
from dynq_cli.storage.state import State

ROWS, DERIVATIONS = 50, 20
_WHERE = "x = 5 AND city = 'Lyon'"
_COUNT, _CHANGE = "_count", "_change_type"


def rows_page(view: State, query: str, offset: int, where: str, at: str) -> str:
    """A page of the distinct rows of a result."""
    version = at or None
    schema, order = view.schema(query, version), "" if not view.current().is_ordered(query) else ", in its order"
    if where:
        found = view.where(row_of(equalities(where), schema, is_whole=False), query, at=version)
    else:
        found = view.enum(query, at=version)
    rows = rows_in(limit(_skipped(found, offset), ROWS + 1), ROWS + 1)

    def link(row: Row) -> str:
        asked = {name: value for name, value in row.items() if name != _COUNT}
        return f'<a href="{_link(f"{query}/why", row=json.dumps(asked), at=at)}">why</a>'

    table = rows_table(rows[:ROWS], _shown(schema.names, rows), link)
    turns = []
    if offset:
        turns.append(f'<a href="{_link(query, offset=max(0, offset - ROWS), where=where, at=at)}">← before</a>')
    if len(rows) > ROWS:
        turns.append(f'<a href="{_link(query, offset=offset + ROWS, where=where, at=at)}">next →</a>')
    first = f"rows {offset + 1:,} to {offset + min(len(rows), ROWS):,}" if rows else "no rows"
    asked_at = f"version {view.version_of(at):,}" if at else f"version {view.version:,}, the last"
    body = [
        _head(query, ".."),
        "<section>",
        f'<form action="{escape(query)}" method="get">{_field("where", where, _WHERE)}'
        f"{_field('at', at, 'version or mark')}<button>Show</button></form>",
        f"<p>{first}{order}, at {asked_at}</p>{table}<nav>{' '.join(turns)}</nav></section>",
        f'<section><h2>What changed</h2><form action="{escape(query)}/diff" method="get">'
        f"{_field('since', '', 'version or mark')}<button>Show</button></form></section>",
    ]
    return document(f"{query} · dynq", body)


def changes_page(view: State, query: str, since: str) -> str:
    """What came and went in a result; the first rows of it."""
    found = view.diff(query, since or None)
    rows = rows_in(found.batches, ROWS + 1)
    names = [name for name in _shown(found.schema.names, rows) if name != _CHANGE]
    for row in rows:
        row[""] = "came" if row.pop(_CHANGE) == "insert" else "went"
    more = f"<p class=quiet>the first {ROWS}; `dynq diff` has all</p>" if len(rows) > ROWS else ""
    told = f"<p>since version {found.since:,}, up to version {found.until:,}</p>"
    body = [_head(query, "../.."), f"<section>{told}{rows_table(rows[:ROWS], ['', *names])}{more}</section>"]
    return document(f"changes of {query} · dynq", body)


def why_page(view: State, query: str, row: str, at: str, offset: int) -> str:
    """The base rows that make a row of a result."""
    version = at or None
    asked = row_of(row, view.schema(query, version))
    found = why(view, asked, query, version, DERIVATIONS, offset)
    turns = ""
    if len(set(found["_derivation"].to_pylist())) == DERIVATIONS:
        turns = f'<nav><a href="{_link("why", row=row, at=at, offset=offset + DERIVATIONS)}">next →</a></nav>'
    body = [
        _head(query, "../.."),
        f"<section><h2>This row</h2><p><code class=row>{escape(row)}</code></p><h2>is there because of</h2>"
        f"{derivations(found)}{turns}</section>",
    ]
    return document(f"why · {query} · dynq", body)


def error_page(error: DynqError, query: str) -> str:
    """What was refused, with the hint."""
    told = escape(str(error)).replace("\n", "<br>")
    return document("dynq", [f"<header><h1>{escape(query)}</h1></header>", f'<section class="error">{told}</section>'])


def _shown(names: list[str], rows: list[Row]) -> list[str]:
    """The columns of rows, without that of their copies if all have one."""
    return [name for name in names if name != _COUNT or any(row[_COUNT] != 1 for row in rows)]


def _skipped(batches: Iterator[pa.RecordBatch], offset: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if offset < batch.num_rows:
            yield batch.slice(offset)
        offset = max(0, offset - batch.num_rows)


def _head(query: str, up: str) -> str:
    back = f'<a href="{up}/pages/{escape(query)}">{escape(query)}</a>' if up != ".." else escape(query)
    return f'<header><p><a href="{up}/">the state</a></p><h1>{back}</h1></header>'


def _link(path: str, **asked: object) -> str:
    given = {name: value for name, value in asked.items() if value not in ("", 0)}
    return escape(path + (f"?{urlencode(given)}" if given else ""))


def _field(name: str, value: str, hint: str) -> str:
    return (
        f'<label>{name}<input name="{name}" value="{escape(value)}" placeholder="{escape(hint)}" '
        'autocapitalize="off" autocomplete="off"></label>'
    )
