"""The deltas that were read as versions were made: differences that need no second engine.

    held.add(views, spec, since, until, deltas)      what a commit, or a step over several versions, told
    held.between("q", since, until)                  the sum of the steps that lead from one version to the other

Codes mean the same as long as the spec does. Beyond MOST_HELD rows the oldest steps are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.consolidate import consolidated
from dynq_cli.engine.tree_delta import Signed
from dynq_cli.engine.views import Views

MOST_HELD = 1 << 22


class _Step(NamedTuple):
    since: int
    until: int
    deltas: Mapping[str, Signed | None]
    rows: int


class HeldDeltas:
    """The last steps, without a gap; nothing at first."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()
        self._rows = 0
        self._spec = ""
        self.views: Views | None = None

    def clear(self) -> None:
        """Forget all steps."""
        self._steps.clear()
        self._rows, self.views = 0, None

    def add(self, views: Views, spec: str, since: int, until: int, deltas: Mapping[str, Signed | None]) -> None:
        """Add a step from the last one's end, or the first one; `spec` names the spec that its codes belong to."""
        if self._steps and (self._steps[-1].until != since or self._spec != spec):
            self.clear()
        rows = sum(len(delta[1]) for delta in deltas.values() if delta is not None)
        self._steps.append(_Step(since, until, deltas, rows))
        self._rows, self._spec, self.views = self._rows + rows, spec, views
        while self._rows > MOST_HELD:
            self._rows -= self._steps.popleft().rows

    def between(self, query: str, spec: str, since: int, until: int) -> Signed | None:
        """Return what came and went in a result; None if the steps do not tell. O(rows of the steps)."""
        if spec != self._spec:
            return None
        taken = [step for step in self._steps if since <= step.since and step.until <= until]
        if not taken or taken[0].since != since or taken[-1].until != until:
            return None
        deltas = [step.deltas.get(query) for step in taken]
        told = [delta for delta in deltas if delta is not None]
        if len(told) < len(deltas):
            return None
        if len(told) == 1:
            return told[0]
        codes, copies = (np.concatenate(parts, axis=-1) for parts in zip(*told, strict=True))
        rows, net = consolidated(codes.T, copies)
        return rows.T, net
