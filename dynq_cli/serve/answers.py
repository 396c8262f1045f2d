"""Answers of the HTTP interface: rows as JSON, CSV or Arrow, as the request accepts; errors as JSON.

    {"error": {"code": "rejected", "message": "…", "hint": "…"}}

`code` is that of the command line's errors, and stable.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

import pyarrow as pa
from starlette.responses import JSONResponse, Response

from dynq_cli.errors import DamagedError, DynqError, LockedError, NoStateError, RejectedError, UsageError
from dynq_cli.io.results.lines import csv_header, csv_lines, json_objects

ARROW, CSV, JSON = "application/vnd.apache.arrow.stream", "text/csv", "application/json"
_STATUS: tuple[tuple[type[DynqError], int], ...] = (
    (RejectedError, 400),
    (UsageError, 400),
    (LockedError, 503),
    (NoStateError, 503),
    (DamagedError, 500),
)


def accepted(accept: str) -> str:
    """Return the first form that a request accepts; JSON if it does not say.

    >>> accepted("text/html, text/csv;q=0.9"), accepted("*/*")
    ('text/csv', 'application/json')
    """
    asked = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((kind for kind in asked if kind in (ARROW, CSV, JSON)), JSON)


def rows_answer(batches: Iterable[pa.RecordBatch], schema: pa.Schema, accept: str, **facts: object) -> Response:
    """Return rows: as JSON beside `facts`, else alone with the version in a header. O(rows)."""
    kind, headers = accepted(accept), {"X-Dynq-Version": str(facts.get("version", ""))}
    if kind == ARROW:
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return Response(sink.getvalue(), media_type=ARROW, headers=headers)
    if kind == CSV:
        content = csv_header(schema) + b"".join(bytes(csv_lines(batch)) for batch in batches)
        return Response(content, media_type=f"{CSV}; charset=utf-8", headers=headers)
    head = json.dumps({**facts, "columns": schema.names}, ensure_ascii=False)
    return Response(f'{head[:-1]}, "rows": [{json_objects(batches)}]}}', media_type=JSON, headers=headers)


def refusal(code: str, message: str, status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error; the lines of its message that begin with `hint:` apart."""
    lines = message.split("\n")
    hint = " ".join(line.strip().removeprefix("hint: ") for line in lines if line.strip().startswith("hint: "))
    told = "\n".join(line for line in lines if not line.strip().startswith("hint: "))
    error = {"code": code, "message": told} | ({"hint": hint} if hint else {})
    return JSONResponse({"error": error}, status, headers)


def error_answer(error: DynqError, *, hidden: str = "") -> JSONResponse:
    """Return an error of dynq; `hidden` is left out of its message."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return refusal(error.code, str(error).replace(hidden, "") if hidden else str(error), status)
