"""Match LIKE patterns that have `%` alone: their pieces stand in the text one after the other."""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Words
from dynq_cli.engine.kernels.intern import Bytes, Flags, Int64s


@kernel(inline="always")
def _is_at(data: Bytes, at: Int, pieces: Bytes, first: Int, stop: Int) -> bool:
    for i in range(stop - first):
        if data[at + i] != pieces[first + i]:
            return False
    return True


@kernel
def like_rows(
    offsets: Int64s, data: Bytes, valid: Flags, pieces: Bytes, ends: Int64s, opened: Int, closed: Int, found: Words
) -> None:
    """For each text 1 if the pieces, each ending before one of `ends`, are found in it, else 0; of NULL 0.

    The first has to stand at the beginning if `opened`, the last at the end if `closed`; `valid` is empty where no row
    is NULL. There is a piece, and a single one is not both.
    """
    last = len(ends) - 1
    for row in range(len(found)):
        found[row] = 0
        if len(valid) and not valid[row]:
            continue
        at, stop = offsets[row], offsets[row + 1]
        is_in, first = True, np.int64(0)
        for p in range(last + 1):
            size = ends[p] - first
            if p == last and closed:
                is_in = stop - at >= size and _is_at(data, stop - size, pieces, first, ends[p])
            elif p == 0 and opened:
                is_in = stop - at >= size and _is_at(data, at, pieces, first, ends[p])
                at += size
            else:
                begins = pieces[first]
                while at + size <= stop and not (data[at] == begins and _is_at(data, at, pieces, first, ends[p])):
                    at += 1
                is_in = at + size <= stop
                at += size
            if not is_in:
                break
            first = ends[p]
        found[row] = is_in
