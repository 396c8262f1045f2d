"""How many random cases a test has: a few in `make test`, `DYNQ_FUZZ` times as many in a campaign.

A seed that has found a mistake is named beside the test and always runs.
"""

from __future__ import annotations

import os

FUZZ = float(os.environ.get("DYNQ_FUZZ", "1"))


def seeds(count: int, *found: int, first: int = 0) -> list[int]:
    """`count` seeds from `first` on, times DYNQ_FUZZ and at least one; then those that have found something."""
    return sorted({*range(first, first + max(1, int(count * FUZZ))), *found})


def examples(count: int) -> int:
    """How many examples hypothesis draws: `count` times DYNQ_FUZZ, and at least ten."""
    return max(10, int(count * FUZZ))
