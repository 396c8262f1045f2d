"""A state behind one thread: every use of the engine waits for the one before it.

    await service.ask(lambda view: view.test(row, "q"))     a question to the state, in the engine's thread
    await service.post(path, "orders")                      apply a log; its version is durable on return
    service.subscribe("q")                                  the changes of a result, a text per version

Counts are read from the manifest and wait for nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from dynq_cli.errors import DynqError
from dynq_cli.io.results.lines import json_objects
from dynq_cli.session.apply_logs import Options, Outcome, apply_logs
from dynq_cli.session.report import Point
from dynq_cli.session.run import run_on
from dynq_cli.storage.manifest import Manifest, read_manifest
from dynq_cli.storage.state import State
from dynq_cli.storage.state import open as open_state

Answer = TypeVar("Answer")
_log = logging.getLogger("dynq")
# Versions that a slow subscriber may be behind before it is cut off, and points of a curve.
MOST_WAITING, MOST_POINTS = 1000, 400


@dataclass(eq=False)
class Subscriber:
    """Waits for the changes of a query; None in the queue ends it."""

    query: str
    events: asyncio.Queue[str | None] = field(default_factory=lambda: asyncio.Queue(MOST_WAITING))


class Service:
    """See the module. Create it in the event loop that uses it."""

    def __init__(self, directory: Path, inbox: str | None = None, quarantine: str | None = None) -> None:
        self.directory, self.inbox, self._quarantine = directory, inbox, quarantine
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "engine")
        self._view = open_state(directory)
        self._subscribers: set[Subscriber] = set()
        self.curves: dict[str, deque[Point]] = defaultdict(lambda: deque(maxlen=MOST_POINTS))
        self.logs = {"applied": 0, "skipped": 0, "refused": 0}
        # The version that subscribers were told of last. Used in the engine's thread alone.
        self._told = read_manifest(directory).version
        # The results whose deltas are read as versions are made.
        self._telling: tuple[set[str], AbstractContextManager[None]] = set(), nullcontext()
        self._is_ending = False

    async def start(self) -> None:
        """Open the engine, and apply what waits in the inbox."""
        await self.ask(lambda view: view.current())
        self._note_counts()
        await self.look_into_inbox()

    @property
    def manifest(self) -> Manifest:
        """The manifest in force; parsed again only if it is another one."""
        return read_manifest(self.directory)

    async def ask(self, question: Callable[[State], Answer]) -> Answer:
        """Put a question to the state, after those before it."""
        return await self._loop.run_in_executor(self._thread, question, self._view)

    async def post(self, path: str, relation: str | None, form: str | None = None) -> Outcome:
        """Apply a log. RejectedError, and nothing has changed, if it is refused."""

        def apply(view: State) -> Outcome:
            try:
                (outcome,) = apply_logs(view, [path], Options(relation=relation, form=form), self._applied)
            except DynqError:
                self.logs["refused"] += 1
                raise
            return outcome

        return await self.ask(apply)

    async def look_into_inbox(self) -> None:
        """Apply what is new in the inbox, and write outputs; warn of what is refused, and try it again next time."""
        inbox = self.inbox
        if inbox is None:
            return

        def run(view: State) -> None:
            try:
                run_on(view, self.directory, inbox, self._applied, quarantine=self._quarantine)
            finally:
                self.publish()  # the clock may have moved without a log

        try:
            await self.ask(run)
        except DynqError as error:
            self.logs["refused"] += 1
            _log.warning("%s", error)

    def _applied(self, outcome: Outcome) -> None:
        """Tell subscribers of a version, in the engine's thread, before the next one."""
        self.logs["applied" if outcome.version is not None else "refused" if outcome.refused else "skipped"] += 1
        if outcome.version is not None:
            self._note_counts()
            self.publish()

    def publish(self) -> int:
        """Tell subscribers of all versions up to the one in force; return it. In the engine's thread.

        The versions that other processes made since the last call are one event.
        """
        queries = {subscriber.query for subscriber in list(self._subscribers)}
        self._have_told({query for query in queries if self._has_diff(query)})
        while self._told < (version := read_manifest(self.directory).version):
            events = self._events(queries, version)
            if events is None:
                continue  # another process has committed meanwhile
            for query, event in events.items():
                self._loop.call_soon_threadsafe(self._tell, query, event)
            self._told = version
        if not queries:
            self._told = read_manifest(self.directory).version
        return self._told

    def _have_told(self, queries: set[str]) -> None:
        """Have the deltas of these results read as versions are made, from the next one on."""
        if queries != self._telling[0]:
            telling = self._view.telling(sorted(queries))
            telling.__enter__()
            self._telling[1].__exit__(None, None, None)
            self._telling = (queries, telling)

    def _events(self, queries: set[str], version: int) -> dict[str, str] | None:
        """Return an event for each query, with the changes from the version told last. None if not to `version`."""
        events: dict[str, str] = {}
        for query in queries:
            try:
                events[query], until = self.event_since(query, self._told)
            except DynqError as error:
                events[query], until = error_event(error), version
            if until != version:
                return None
        return events

    def _has_diff(self, query: str) -> bool:
        try:
            self._view.require("diff", query)
        except DynqError:  # an `alter` may have dropped it
            return False
        return True

    def first_event(self, query: str, since: str | int) -> tuple[str, int]:
        """Return the changes since a version for a new subscriber, and the version to which they lead.

        Published events continue there. In the engine's thread.
        """
        while True:
            told = self.publish()
            event, until = self.event_since(query, since)
            if until == told:
                return event, until

    def _note_counts(self) -> None:
        manifest = read_manifest(self.directory)
        for name, counts in manifest.counts.items():
            self.curves[name].append(Point(manifest.version, None if counts is None else counts.rows))

    def event_since(self, query: str, since: str | int) -> tuple[str, int]:
        """Return the changes of a result since a version, as an event, and the version in force.

        In the engine's thread.
        """
        found = self._view.diff(query, since)
        return _event(found.since, found.until, found.batches), found.until

    def _tell(self, query: str, event: str) -> None:
        for subscriber in [s for s in self._subscribers if s.query == query]:
            try:
                subscriber.events.put_nowait(event)
            except asyncio.QueueFull:
                self._subscribers.discard(subscriber)  # it reads too slowly, and may come back with `since`
                subscriber.events.get_nowait()
                subscriber.events.put_nowait(None)

    @contextmanager
    def subscribed(self, query: str) -> Iterator[Subscriber]:
        """Subscribe to a query for as long as the block lasts."""
        subscriber = Subscriber(query)
        self._subscribers.add(subscriber)
        if self._is_ending:  # a client that came back at once
            subscriber.events.put_nowait(None)
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    def end_streams(self) -> None:
        """Let all subscribers go, and those that come back."""
        self._is_ending = True
        for subscriber in list(self._subscribers):
            if subscriber.events.full():
                subscriber.events.get_nowait()
            subscriber.events.put_nowait(None)

    async def close(self) -> None:
        """Wait for what is being applied; write a snapshot if the state would open slowly."""
        self.end_streams()
        await self.ask(lambda view: view.close())
        self._thread.shutdown()


def _event(since: int, until: int, changes: Iterable[pa.RecordBatch]) -> str:
    data = f'{{"version":{until},"since":{since},"rows":[{json_objects(changes)}]}}'
    return f"event: change\nid: {until}\ndata: {data}\n\n"


def error_event(error: DynqError) -> str:
    """Return an error as an event of a stream."""
    return f"event: error\ndata: {json.dumps({'error': {'code': error.code, 'message': str(error)}})}\n\n"
