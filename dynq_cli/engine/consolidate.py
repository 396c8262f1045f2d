"""Consolidate deltas: every row once, with its net multiplicity, without zeros."""

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
    """Sum the deltas of equal rows; drop sums of 0. O(rows log rows)."""
    order, is_first = in_order(codes)
    sums = np.add.reduceat(delta[order], np.flatnonzero(is_first)) if len(order) else delta
    kept = sums != 0
    return codes[order[is_first][kept]], sums[kept]


def in_order(codes: Codes) -> tuple[Codes, NDArray[np.bool_]]:
    """Return a permutation that makes equal rows adjacent, and which row is the first of its equals."""
    order = np.lexsort(codes.T) if codes.shape[1] else np.arange(len(codes))
    is_first = np.ones(len(codes), np.bool_)
    is_first[1:] = (codes[order[1:]] != codes[order[:-1]]).any(axis=1)
    return order, is_first
