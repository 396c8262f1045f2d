"""How large a state is."""

from __future__ import annotations

import math

from dynq_cli.engine.image import parts_of
from dynq_cli.engine.live import Live


def state_bytes(live: Live) -> int:
    """What a snapshot has to hold: tables packed, a quarter of room to grow included."""
    return sum(part.dtype.itemsize * math.prod(part.shape) for part in parts_of(live).values())
