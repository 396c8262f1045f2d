"""The base delta of one relation: the net effect of a commit on each base row that it touches."""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes
from dynq_cli.engine.kernels.fields import DeltaEntries
from dynq_cli.records import record


@record()
class BaseDelta:
    """The first `n` entries are in use."""

    base: BaseLayout
    changes: Changes
    entries: DeltaEntries
    n: int


class DeltaBuffers:
    """Reusable arrays for resolving the changes of one relation into a base delta.

    They are kept between commits: the system would have to find and zero the pages of new ones.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        touched, first, last = (np.empty(room, np.int32) for _ in range(3))
        net, old, new = (np.empty(room, np.int64) for _ in range(3))
        self.entries = DeltaEntries(touched, net, first, last, old, new)
