"""Enumeration: result rows, a block at a time, column by column.

`enumeration_pipeline` has the combinations of all levels but the innermost. Under each, the rows of the innermost level
are a *run* of result rows: they differ in its columns alone. A run that begins with the row with which the one before
began, as under every combination of siblings, is the same run and copied.

Runs are short more often than not, so they are written STEP rows at a time without looking at where they
end: what is too much is written over by the next run, or lies in the margin of the block.

Runs of ranges are copied from the `range_scan_cache`, as far as that has room.

The state between blocks is that of the stages. O(1) per row.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.enumeration_pipeline import (
    LARGEST,
    S_FILLED,
    S_NEXT,
    S_ORIGIN,
    S_PLACE,
    S_WARM,
    is_left,
    refill,
    warm,
)
from dynq_cli.engine.kernels.fields import (
    N_END,
    N_NEXT,
    N_TABLE,
    T_ROWS,
    T_STRIDE,
    Flags,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.range_scan_cache import BEYOND, KNOWN, MOST, UNKNOWN, Trail, most_of, take_run

STEP = 8
# Per run: its entry, where it starts, how long it is, where its like stands, the most copies of a row in it or more,
# and its place on the trail, or -1.
R_ENTRY, R_START, R_LENGTH, R_LIKE, R_MOST, R_PLACE, R_FIELDS = range(7)


@bare(inline="always")
def _copy_step(column: Words, to: Int, start: Int) -> None:
    """STEP words within a column; all are read before any is written."""
    a, b, c, d = column[start], column[start + 1], column[start + 2], column[start + 3]
    e, f, g, h = column[start + 4], column[start + 5], column[start + 6], column[start + 7]
    column[to], column[to + 1], column[to + 2], column[to + 3] = a, b, c, d
    column[to + 4], column[to + 5], column[to + 6], column[to + 7] = e, f, g, h


@bare
def _outer_column(column: Words, codes: Words, runs: Words, n: Int) -> None:
    """A column of an outer level: one code to a run."""
    for k in range(n):
        code, start = codes[runs[k, R_ENTRY]], runs[k, R_START]
        for j in range(STEP):
            column[start + j] = code
        for to in range(start + STEP, start + runs[k, R_LENGTH], STEP):
            for j in range(STEP):
                column[to + j] = code


@bare
def _inner_column(
    a64: Words, at: Int, stride: Int, column: Words, inner: Words, kept: Words, runs: Words, n: Int
) -> None:
    """A column of the innermost level, at `at` in row 0 and on the trail in `kept`: gathered, or copied."""
    for k in range(n):
        start, length, like, place = runs[k, R_START], runs[k, R_LENGTH], runs[k, R_LIKE], runs[k, R_PLACE]
        if place >= 0:
            for j in range(length):
                column[start + j] = kept[place + j]
            continue
        if like == start:
            for j in range(start, start + length):
                column[j] = a64[at + inner[j] * stride]
            continue
        _copy_step(column, start, like)
        for done in range(STEP, length, STEP):
            _copy_step(column, start + done, like + done)


@bare
def _fits(outer: Int, kept: Words, place: Int, length: Int) -> Int:
    """Whether the copies of a run on the trail fit 63 bits; of another one its largest is known."""
    if place < 0:
        return False
    for j in range(length):
        if float(outer) * float(kept[place + j]) > LARGEST:
            return False
    return True


@bare
def _copies(column: Words, many: Words, kept: Words, copies: Words, runs: Words, n: Int) -> Int:
    """Copies of each row: those of the entry times those of the innermost row, which are in `many`, or on the trail in
    `kept`. False if one does not fit 63 bits."""
    for k in range(n):
        outer, start, like, place = copies[runs[k, R_ENTRY]], runs[k, R_START], runs[k, R_LIKE], runs[k, R_PLACE]
        if float(outer) * float(runs[k, R_MOST]) > LARGEST and not _fits(outer, kept, place, runs[k, R_LENGTH]):
            return False
        if place >= 0:
            for j in range(runs[k, R_LENGTH]):
                column[start + j] = outer * kept[place + j]
            continue
        for done in range(0, runs[k, R_LENGTH], STEP):
            for j in range(done, done + STEP):
                column[start + j] = outer * many[like + j]
    return True


@bare
def fill(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    levels: Words,
    above: Words,
    frontier: Flags,
    column_level: Words,
    column_position: Words,
    counted: Int,
    rows: Words,
    origin: Words,
    codes: Words,
    copies: Words,
    heads: Words,
    tails: Words,
    state: Words,
    walkers: Words,
    places: Words,
    runs: Words,
    inner: Words,
    many: Words,
    trail: Trail,
    out: Words,
    out_copies: Words,
) -> tuple[Int, Int]:
    """Fill the columns of `out` (and `out_copies`, if counted), which have a margin of STEP words.

    Returns (rows written, whether more follow); (-1, _) if a multiplicity does not fit 63 bits.
    """
    size, s = out.shape[1] - STEP, len(levels)
    v = levels[s - 1]
    t, following = N[v, N_TABLE], N[v, N_NEXT]
    start, stride = T[t, T_ROWS], T[t, T_STRIDE]
    filled, is_range = 0, N[v, N_END] >= 0
    # The last run that was gathered whole.
    head, tail, like, length, most = np.int64(-1), np.int64(-1), 0, 0, np.int64(1)
    while True:
        n, e, row, place = 0, state[s, S_ORIGIN], state[s, S_NEXT], state[s, S_PLACE]
        while filled < size and e < state[s - 1, S_FILLED]:
            if e == state[s, S_WARM]:
                warm(a64, a32, T, N, levels, above, s, rows, origin, heads, tails, state, walkers, places)
            runs[n, R_PLACE] = -1
            if row < 0:
                row, place = heads[s, e], np.int64(UNKNOWN)
            if is_range and place != BEYOND and (n == 0 or trail.state[KNOWN] < len(trail.rows)):
                runs[n, R_PLACE], length, row, place = take_run(
                    a64,
                    a32,
                    T,
                    N,
                    v,
                    s - 1,
                    column_level,
                    column_position,
                    counted,
                    trail,
                    row,
                    place,
                    tails[s, e],
                    size - filled,
                    n == 0,
                )
                most = trail.state[MOST]
                if length < 0:
                    return -1, False
            elif row == head and tails[s, e] == tail and filled + length <= size:
                row = np.int64(-1)
            else:
                head, tail, like = row, tails[s, e], filled
                at = filled
                while row >= 0 and at < size:
                    inner[at] = row
                    at += 1
                    row = np.int64(-1) if row == tail else np.int64(a32[2 * (start + row * stride) + following])
                length = at - like
                if row >= 0:
                    head = np.int64(-1)
                if counted:
                    most = most_of(a64, T, N, v, inner, many, like, at)
                    if most < 0:
                        return -1, False
            runs[n, R_ENTRY], runs[n, R_START], runs[n, R_LENGTH] = e, filled, length
            runs[n, R_LIKE], runs[n, R_MOST] = like, most
            n += 1
            filled += length
            if row < 0:
                e += 1
        state[s, S_ORIGIN], state[s, S_NEXT], state[s, S_PLACE] = e, row, place
        for c in range(len(column_level)):
            if column_level[c] == s - 1:
                _inner_column(a64, start + column_position[c], stride, out[c], inner, trail.codes[c], runs, n)
            else:
                _outer_column(out[c], codes[s - 1, c], runs, n)
        if counted and not _copies(out_copies, many, trail.many, copies[s - 1], runs, n):
            return -1, False
        if not is_left(state):
            return filled, False
        if filled == size:
            return filled, True
        if not refill(
            a64,
            a32,
            T,
            N,
            levels,
            above,
            frontier,
            column_level,
            column_position,
            counted,
            rows,
            origin,
            codes,
            copies,
            heads,
            tails,
            state,
            walkers,
            places,
        ):
            return -1, False
