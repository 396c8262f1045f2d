"""A batch of one relation after it was resolved: what it does to each base row that it touches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.records import record


@record()
class BaseDelta:
    """The first `n` entries of each array are in use: a row, the change that brought it, its copies before and now."""

    base: BaseLayout
    changes: Changes
    touched: NDArray[np.int32]
    first: NDArray[np.int32]
    old: Codes
    new: Codes
    n: int


class DeltaBuffers:
    """Arrays that the changes of one relation are resolved in.

    They stay from commit to commit: new ones would be new pages, which the system has to find and to zero.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.touched, self.first, self.last = (np.empty(room, np.int32) for _ in range(3))
        self.delta, self.old, self.new = (np.empty(room, np.int64) for _ in range(3))
