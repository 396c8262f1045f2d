"""The HTTP interface of `dynq serve`.

    GET  /queries                         names, columns, counts
    GET  /queries/Q/count                 {"rows", "distinct", "version"}; ?at
    GET  /queries/Q/rows                  ?offset &limit &where &at
    GET  /queries/Q/diff                  ?since
    GET  /queries/Q/jth                   ?j, several times or with commas
    POST /queries/Q/test, /queries/Q/rank a row as a JSON object
    GET  /queries/Q/changes               ?since; server-sent events, one per version
    POST /logs                            ?relation &batch &format; answers once the version is durable
    GET  /metrics, /healthz, /            Prometheus, liveness, the page
    GET  /pages/Q, /pages/Q/diff, …/why   the same for people (`pages`)

Bodies and answers are bounded. With a token, all but /healthz need `Authorization: Bearer TOKEN` (`guard`).
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.io.results.multiplicity import expand, expanded_schema, limit
from dynq_cli.io.results.row import row_of
from dynq_cli.io.results.where import equalities
from dynq_cli.serve.answers import error_answer, refusal, rows_answer
from dynq_cli.serve.guard import Guard
from dynq_cli.serve.pages import changes_page, error_page, rows_page, why_page
from dynq_cli.serve.service import Service, error_event
from dynq_cli.session.metrics import state_text
from dynq_cli.session.report import report
from dynq_cli.storage.facts import facts_of
from dynq_cli.storage.state import State

MOST_BYTES, MOST_ROWS, MOST_CHANGES, ROWS = 256 * 2**20, 100_000, 1_000_000, 100
_MOST_ROW, _PART_SECONDS, _BEAT_SECONDS = 2**20, 60.0, 15.0
_BATCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,150}")
_EXTENSIONS = {
    "text/csv": ".csv",
    "application/json": ".jsonl",
    "application/jsonl": ".jsonl",
    "application/x-ndjson": ".jsonl",
    "application/x-jsonlines": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
    "application/vnd.apache.arrow.stream": ".arrow",
    "application/vnd.apache.arrow.file": ".arrow",
}
Endpoint = Callable[[Request], Awaitable[Response]]


class _TooLargeError(Exception):
    pass


def app_of(service: Service, token: str = "") -> ASGIApp:
    """Return the application; all requests need the token if it is not empty."""
    http = _Http(service)
    routes = [
        Route("/", http.page),
        Route("/healthz", http.health),
        Route("/metrics", http.metrics),
        Route("/queries", http.queries),
        Route("/logs", http.logs, methods=["POST"]),
        Route("/pages/{query}", http.rows_page),
        Route("/pages/{query}/diff", http.changes_page),
        Route("/pages/{query}/why", http.why_page),
        *(
            Route(f"/queries/{{query}}/{name}", getattr(http, name))
            for name in ("count", "rows", "diff", "jth", "changes")
        ),
        *(Route(f"/queries/{{query}}/{name}", getattr(http, name), methods=["POST"]) for name in ("test", "rank")),
    ]
    app = Starlette(routes=routes, exception_handlers={DynqError: _failed, HTTPException: _missing, Exception: _broken})
    return Guard(app, token)


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, DynqError)
    return error_answer(error)


async def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "\nhint: /queries lists what there is" if error.status_code == 404 else ""
    return refusal("http", f"{error.detail}: {request.method} {request.url.path}{hint}", error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    return refusal("internal", f"internal error: {type(error).__name__}", 500)


class _Http:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._page: tuple[int, str] | None = None

    def _query(self, request: Request) -> str:
        name = str(request.path_params["query"])
        if name not in self._service.manifest.counts:
            raise HTTPException(404, f"there is no query {name}")
        return name

    async def page(self, request: Request) -> Response:
        version = self._service.manifest.version
        if self._page is None or self._page[0] != version:
            curves = {name: list(points) for name, points in self._service.curves.items()}
            live = '<p>Served live: <a href="queries">queries</a> · <a href="metrics">metrics</a></p>'
            directory = self._service.directory
            text = await self._service.ask(lambda view: report(view, directory, curves=curves, live=live))
            self._page = version, text
        return _html(self._page[1])

    async def rows_page(self, request: Request) -> Response:
        name, asked = self._query(request), request.query_params
        where, at = asked.get("where", ""), asked.get("at", "")

        def read(view: State) -> str:
            return rows_page(view, name, _number(asked, "offset", 0), where, at)

        return await self._shown(name, read)

    async def changes_page(self, request: Request) -> Response:
        name, since = self._query(request), request.query_params.get("since", "")
        return await self._shown(name, lambda view: changes_page(view, name, since))

    async def why_page(self, request: Request) -> Response:
        name, asked = self._query(request), request.query_params
        row, at = asked.get("row", ""), asked.get("at", "")
        return await self._shown(name, lambda view: why_page(view, name, row, at, _number(asked, "offset", 0)))

    async def _shown(self, query: str, read: Callable[[State], str]) -> Response:
        try:
            return _html(await self._service.ask(read))
        except DynqError as error:
            return _html(error_page(error, query), error_answer(error).status_code)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": self._service.manifest.version})

    async def metrics(self, request: Request) -> Response:
        directory = self._service.directory
        text = state_text(str(directory), facts_of(directory), self._service.logs)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def queries(self, request: Request) -> Response:
        manifest = self._service.manifest

        def columns(view: State) -> dict[str, list[dict[str, object]]]:
            return {
                name: [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in view.schema(name)]
                for name in view.queries
            }

        found = await self._service.ask(columns)
        listed = [
            {
                "name": name,
                "rows": None if counts is None else counts.rows,
                "distinct": None if counts is None else counts.distinct,
                "columns": found.get(name, []),
            }
            for name, counts in manifest.counts.items()
        ]
        return JSONResponse({"version": manifest.version, "queries": listed})

    async def count(self, request: Request) -> Response:
        name, at = self._query(request), request.query_params.get("at")
        manifest = self._service.manifest
        counts = manifest.counts[name]
        version = manifest.version
        if at is not None or counts is None:
            asked = at if at is not None else version
            counts, version = await self._service.ask(lambda v: (v.counts(name, at=asked), v.version_of(asked)))
        assert counts is not None
        return JSONResponse({"rows": counts.rows, "distinct": counts.distinct, "version": version})

    async def rows(self, request: Request) -> Response:
        name, asked = self._query(request), request.query_params
        offset, many = _number(asked, "offset", 0), _number(asked, "limit", ROWS)
        if many > MOST_ROWS:
            raise UsageError(f"limit {many:,} is too large: an answer has at most {MOST_ROWS:,} rows")
        where, at, accept = asked.get("where"), asked.get("at"), request.headers.get("accept", "")

        def read(view: State) -> Response:
            schema = view.schema(name, at)
            version = view.version if at is None else view.version_of(at)
            written = view.spec.query(name)
            if where is None and written is not None and written.keep == "rows":
                # No row has a position: they come in the order of the walk, which a version keeps.
                found = limit(expand(view.enum(name, at=at), schema), offset + many)
                batches = _skipped(found, offset)
            elif where is None and offset <= view.counts(name, at=at).rows:
                batches = view.page(name, offset=offset, limit=many, at=at)
            elif where is None:
                batches = iter(())
            else:
                row = row_of(equalities(where), schema, is_whole=False)
                found = limit(expand(view.where(row, name, at=at), schema), offset + many)
                batches = _skipped(found, offset)
            return rows_answer(batches, expanded_schema(schema), accept, version=version, offset=offset)

        return await self._service.ask(read)

    async def diff(self, request: Request) -> Response:
        name, since = self._query(request), request.query_params.get("since")
        accept = request.headers.get("accept", "")

        def read(view: State) -> Response:
            found = view.diff(name, since)
            batches = list(_at_most(MOST_CHANGES, found.batches))
            return rows_answer(batches, found.schema, accept, since=found.since, version=found.until)

        return await self._service.ask(read)

    async def jth(self, request: Request) -> Response:
        name = self._query(request)
        texts = [part for value in request.query_params.getlist("j") for part in value.split(",")]
        if not texts or not all(re.fullmatch(r"[0-9]{1,30}", text) for text in texts) or len(texts) > MOST_ROWS:
            raise UsageError("j has to be a position, or several with commas: ?j=1,7")
        accept = request.headers.get("accept", "")

        def read(view: State) -> Response:
            schema = expanded_schema(view.schema(name))
            return rows_answer(view.jth([int(t) for t in texts], name), schema, accept, version=view.version)

        return await self._service.ask(read)

    async def test(self, request: Request) -> Response:
        name, text = self._query(request), await _text(request)

        def read(view: State) -> dict[str, object]:
            copies = view.test(row_of(text, view.schema(name)), name)
            return {"result": copies > 0, "count": copies, "version": view.version}

        return JSONResponse(await self._service.ask(read))

    async def rank(self, request: Request) -> Response:
        name, text = self._query(request), await _text(request)

        def read(view: State) -> dict[str, object]:
            return {"rank": view.rank(row_of(text, view.schema(name)), name), "version": view.version}

        return JSONResponse(await self._service.ask(read))

    async def changes(self, request: Request) -> Response:
        name = self._query(request)
        since = request.query_params.get("since") or request.headers.get("last-event-id")
        service = self._service
        # What is refused is refused before the stream begins.
        await service.ask(lambda view: view.require("diff", name))
        if since is not None:
            asked = since
            await service.ask(lambda view: view.version_of(asked))

        async def events() -> AsyncIterator[str]:
            with service.subscribed(name) as subscriber:
                yield ": subscribed\n\n"
                if since is None:
                    known = await service.ask(lambda view: service.publish())
                else:
                    try:
                        asked_version = await service.ask(lambda view: view.version_of(asked))
                        first, known = await service.ask(lambda view: service.first_event(name, asked_version))
                    except DynqError as error:  # the query was not there then, or had other columns
                        yield error_event(error)
                        return
                    if known > asked_version:
                        yield first
                while True:
                    try:
                        event = await asyncio.wait_for(subscriber.events.get(), _BEAT_SECONDS)
                    except TimeoutError:
                        await service.ask(lambda view: service.publish())  # what other processes applied
                        yield ": still here\n\n"
                        continue
                    if event is None:
                        return
                    version = re.search(r"^id: ([0-9]+)$", event, re.MULTILINE)
                    if version is None or int(version[1]) > known:
                        yield event

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    async def logs(self, request: Request) -> Response:
        asked = request.query_params
        batch = asked.get("batch") or f"posted-{uuid.uuid4().hex}"
        if not _BATCH.fullmatch(batch):
            raise UsageError("batch has letters, digits, and _ . - = +, at most 150 of them")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _EXTENSIONS:
            raise UsageError(f"Content-Type {kind or 'is missing'}: write one of {', '.join(_EXTENSIONS)}")
        with tempfile.TemporaryDirectory(prefix="dynq-serve-") as folder:
            path = Path(folder) / f"{batch}{_EXTENSIONS[kind]}"
            try:
                await _stored(request, path)
            except _TooLargeError:
                return refusal("too-large", f"a body has at most {MOST_BYTES:,} bytes", 413)
            except (TimeoutError, ClientDisconnect):
                return refusal("timeout", "the body did not come to its end", 408)
            try:
                outcome = await self._service.post(str(path), asked.get("relation"), asked.get("format"))
            except DynqError as error:
                return error_answer(error, hidden=f"{folder}/")
        told: dict[str, Any] = {"version": self._service.manifest.version, "skipped": outcome.version is None}
        if outcome.version is None:
            return JSONResponse(told | {"reason": outcome.reason.replace(folder + "/", "")})
        counted = {name: getattr(outcome, name) for name in ("rows", "inserted", "replaced", "deleted")}
        return JSONResponse({**told, "version": outcome.version, **counted, "warnings": list(outcome.warnings)})


def _html(text: str, status: int = 200) -> Response:
    """A page that may load nothing and send forms nowhere else."""
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(text, status, {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


def _skipped(batches: Any, offset: int) -> Any:
    for batch in batches:
        yield batch.slice(min(offset, batch.num_rows))
        offset = max(0, offset - batch.num_rows)


def _at_most(rows: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, and refuse when they have more rows."""
    for batch in batches:
        rows -= batch.num_rows
        if rows < 0:
            raise UsageError(
                f"more than {MOST_CHANGES:,} rows came and went since then\n"
                "  hint: `dynq diff --since … -o FILE` writes them to a file; ask for a later version"
            )
        yield batch


def _number(asked: Any, name: str, usual: int) -> int:
    text = asked.get(name)
    if text is None:
        return usual
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError(f"{name} has to be a whole number, not {text[:40]!r}")
    return int(text)


async def _text(request: Request) -> str:
    """Return a small body."""
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > _MOST_ROW:
            raise UsageError(f"a row has at most {_MOST_ROW:,} bytes")
    return parts.decode("utf-8", "replace")


async def _stored(request: Request, path: Path) -> None:
    """Write a body to a file."""
    size, stream = 0, request.stream().__aiter__()
    with path.open("wb") as file:
        while True:
            try:
                part = await asyncio.wait_for(stream.__anext__(), _PART_SECONDS)
            except StopAsyncIteration:
                return
            size += len(part)
            if size > MOST_BYTES:
                raise _TooLargeError
            file.write(part)
