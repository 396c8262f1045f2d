"""Handle SIGINT and SIGTERM: the command cleans up once and ends; no signal is lost.

Python raises the exception of a signal wherever the main thread is. In a finaliser, Python drops the exception with a
message, and the command would continue. `terminable` detects that and sends the signal again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_KILLED = 128  # exit codes of processes that a signal ended begin here
_AGAIN = 0.01  # seconds


class _Ending:
    """Raises at the first signal; ignores later ones during cleanup, unless the first was dropped."""

    def __init__(self) -> None:
        self._is_raised = False
        self._hook = sys.unraisablehook

    def end(self, number: int, frame: FrameType | None) -> None:
        if self._is_raised:
            return
        self._is_raised = True
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(_KILLED + number)

    def dropped(self, what: sys.UnraisableHookArgs) -> None:
        if not isinstance(what.exc_value, (KeyboardInterrupt, SystemExit)):
            self._hook(what)
            return
        self._is_raised = False
        number = signal.SIGINT if isinstance(what.exc_value, KeyboardInterrupt) else signal.SIGTERM
        # Not at once: this runs in the finaliser, too.
        threading.Timer(_AGAIN, os.kill, (os.getpid(), number)).start()


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that it can tidy up; the exit code is 143, as if it were killed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = _Ending()
    before = {number: signal.signal(number, ending.end) for number in (signal.SIGINT, signal.SIGTERM)}
    hook, sys.unraisablehook = sys.unraisablehook, ending.dropped
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
