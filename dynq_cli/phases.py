"""Report the phases of long work to a listener: the name of the phase, and how much of it is done.

    with phase("writing the snapshot", "bytes", total=length) as writing:
        writing.add(4096)

Without a listener a phase costs its object. There is one listener in a process, the command line's; counting calls
nothing, so a listener looks at the counts when it wants to.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol


class Listener(Protocol):
    def begin(self, phase: Phase) -> None: ...

    def end(self, phase: Phase) -> None: ...


class Phase:
    """Work of one kind: `done` of `total` units, or of a number that is not known."""

    def __init__(self, doing: str, unit: str = "rows", total: int | None = None) -> None:
        self.doing, self.unit, self.total = doing, unit, total
        self.done = 0

    def __enter__(self) -> Phase:
        self._before, _now.phase = _now.phase, self
        if _now.listener is not None:
            _now.listener.begin(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _now.phase = self._before
        if _now.listener is not None:
            _now.listener.end(self)

    def add(self, done: int) -> None:
        """Count work. O(1)."""
        self.done += done


class _Now:
    phase: Phase | None = None
    listener: Listener | None = None


_now = _Now()


def phase(doing: str, unit: str = "rows", total: int | None = None) -> Phase:
    """A phase, to be entered."""
    return Phase(doing, unit, total)


def advance(done: int) -> None:
    """Count work of the phase that was begun last, for code that does not know which one that is. O(1)."""
    if _now.phase is not None:
        _now.phase.done += done


def listen(listener: Listener | None) -> Listener | None:
    """Tell a listener of phases from now on; the one before it."""
    before, _now.listener = _now.listener, listener
    return before
