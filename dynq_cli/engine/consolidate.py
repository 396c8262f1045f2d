"""Adding up changes of rows: every row once, none that stays as it was."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]


class NetDelta(NamedTuple):
    """Rows of one relation in codes, and how many copies of each came (> 0) or went."""

    codes: Codes
    delta: Codes


def consolidated(codes: Codes, delta: Codes) -> tuple[Codes, Codes]:
    """The rows of codes and what their deltas add up to, where that is not 0. O(rows log rows)."""
    order, is_first = in_order(codes)
    sums = np.add.reduceat(delta[order], np.flatnonzero(is_first)) if len(order) else delta
    kept = sums != 0
    return codes[order[is_first][kept]], sums[kept]


def in_order(codes: Codes) -> tuple[Codes, NDArray[np.bool_]]:
    """An order that puts equal rows beside each other, and which is the first of its like."""
    order = np.lexsort(codes.T) if codes.shape[1] else np.arange(len(codes))
    is_first = np.ones(len(codes), np.bool_)
    is_first[1:] = (codes[order[1:]] != codes[order[:-1]]).any(axis=1)
    return order, is_first
