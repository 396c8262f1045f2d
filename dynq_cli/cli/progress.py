"""How far a command is that takes longer than a second: one line on a terminal, which goes away when it is done.

Nothing appears where stderr is no terminal, under `--quiet` and `--log-format json`, or within the first second.
There is no thread: the line is drawn anew when work is counted, ten times a second at most.
"""

from __future__ import annotations

import os
import time
from types import TracebackType

from dynq_cli.cli import output

_FIRST, _AGAIN = 1.0, 0.1  # seconds
_WIDTH = 24
# Messages end their line, so the line that is shown is the one above: go there, empty it, and stay in front of it.
_HIDE = "\033[1A\033[2K\033[1A"


class Progress:
    """Counts work done. With a `total` a bar shows the part of it; without, there is only the number.

    `with Progress("applying", "rows") as bar: … bar.add(1000)`
    """

    def __init__(self, doing: str, unit: str = "rows", total: int | None = None) -> None:
        self._doing, self._unit, self._total = doing, unit, total
        self._done = 0
        self._is_shown = False
        self._began = time.monotonic()
        self._next = self._began + _FIRST
        self._is_wanted = _is_wanted()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hide()

    def add(self, done: int) -> None:
        """Count work, and show it if it is time to. O(1)."""
        self._done += done
        if self._is_wanted and time.monotonic() >= self._next:
            self.hide()
            output.fail_plain(self.line())
            self._is_shown = True
            self._next = time.monotonic() + _AGAIN

    def hide(self) -> None:
        """Take the line away, so that messages can be printed; the next one comes when it is time."""
        if self._is_shown:
            output.fail_plain(_HIDE)
            self._is_shown = False

    def line(self) -> str:
        """What is shown.

        >>> bar = Progress("writing", total=4000)
        >>> bar.add(1000)
        >>> bar.line()
        'writing [######------------------] 1,000 of 4,000 rows, 0 s'
        """
        seconds = int(time.monotonic() - self._began)
        if not self._total:
            return f"{self._doing}: {self._done:,} {self._unit}, {seconds} s"
        filled = min(self._done * _WIDTH // self._total, _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        return f"{self._doing} [{bar}] {self._done:,} of {self._total:,} {self._unit}, {seconds} s"


def _is_wanted() -> bool:
    said = output.settings
    if said.quiet or said.json_log or os.environ.get("TERM") == "dumb":
        return False
    try:
        return os.isatty(2)
    except OSError:  # there is no stderr
        return False
