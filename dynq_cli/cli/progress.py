"""Progress of commands that take longer than a second: one line on a terminal, removed at the end.

The line shows the latest phase (`phases`) and its progress. It appears only on a terminal, after the first second, and
not with `--quiet` or `--log-format json`. It is redrawn when work is counted, at most ten times a second, and twice a
second by a thread, so that it also moves in phases without counts. With `--verbose` or `--log-format json`, every phase
that took at least a second is logged when it ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from dynq_cli import phases
from dynq_cli.cli import output
from dynq_cli.phases import Phase

_FIRST, _AGAIN, _TICK, _LOGGED = 1.0, 0.1, 0.5, 1.0  # seconds
_WIDTH = 24
# Messages end their line, so the line that is shown is the one above: go there, empty it, and stay in front of it.
_HIDE = "\033[1A\033[2K\033[1A"


class Progress:
    """Shows work done: with a `total` as a bar, without as a number.

    `with Progress("applying", "rows") as bar: … bar.add(1000)`
    """

    def __init__(self, doing: str, unit: str = "rows", total: int | None = None) -> None:
        self._own = Phase(doing, unit, total)
        self._is_shown = False
        began = time.monotonic()
        self._phases = [(self._own, began)]
        self._next = began + _FIRST
        self._is_wanted = _is_wanted()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Progress:
        self._before = phases.listen(self)
        if self._is_wanted:
            output.aside = self._aside
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        phases.listen(self._before)
        self._ended.set()
        if self._ticker is not None:
            self._ticker.join()
            output.aside = output.no_aside
        self.hide()

    def _tick(self) -> None:
        while not self._ended.wait(_TICK):
            self._show_if_due()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Hide the line while something else is printed."""
        with self._lock:
            self.hide()
            yield

    def begin(self, phase: Phase) -> None:
        """Show another phase."""
        with self._lock:
            self._phases.append((phase, time.monotonic()))
        self._show_if_due()

    def end(self, phase: Phase) -> None:
        """Show the previous phase again; log this one if it took long."""
        with self._lock:
            began = next((began for known, began in self._phases if known is phase), None)
            self._phases = [both for both in self._phases if both[0] is not phase]
        said = output.settings
        if began is None or not (said.verbose or said.json_log) or said.quiet:
            return
        seconds = time.monotonic() - began
        if seconds >= _LOGGED:
            many = f": {phase.done:,} {phase.unit}" if phase.done else ""
            output.note(f"{phase.doing}{many}, {seconds:.1f} s")

    def add(self, done: int) -> None:
        """Count work; redraw if due. O(1)."""
        self._own.add(done)
        self._show_if_due()

    def _show_if_due(self) -> None:
        if self._is_wanted and time.monotonic() >= self._next:
            with self._lock:
                self.hide()
                output.fail_plain(self.line())
                self._is_shown = True
                self._next = time.monotonic() + _AGAIN

    def hide(self) -> None:
        """Remove the line, so that messages can be printed; it is redrawn when due."""
        with self._lock:
            if self._is_shown:
                output.fail_plain(_HIDE)
                self._is_shown = False

    def line(self) -> str:
        """Return the text of the line.

        >>> bar = Progress("writing", total=4000)
        >>> bar.add(1000)
        >>> bar.line()
        'writing [######------------------] 1,000 of 4,000 rows, 0 s'
        """
        phase, began = self._phases[-1]
        seconds = int(time.monotonic() - began)
        if not phase.total:
            many = f": {phase.done:,} {phase.unit}" if phase.done else ""
            return f"{phase.doing}{many}, {seconds} s"
        done = min(phase.done, phase.total)
        filled = done * _WIDTH // phase.total
        bar = "#" * filled + "-" * (_WIDTH - filled)
        return f"{phase.doing} [{bar}] {done:,} of {phase.total:,} {phase.unit}, {seconds} s"


def _is_wanted() -> bool:
    said = output.settings
    if said.quiet or said.json_log or os.environ.get("TERM") == "dumb":
        return False
    try:
        return os.isatty(2)
    except OSError:  # there is no stderr
        return False
