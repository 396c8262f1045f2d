"""How large a state is."""

from __future__ import annotations

import math

from dynq_cli.engine.arena_snapshot import parts_of
from dynq_cli.engine.views import Views


def state_bytes(live: Views) -> int:
    """What a snapshot has to hold: tables packed, a quarter of room to grow included."""
    return sum(part.dtype.itemsize * math.prod(part.shape) for part in parts_of(live).values())
