"""Write result rows, a block at a time, column by column.

`enumeration_pipeline` has the combinations of all levels but the innermost. Under each, the rows of the innermost level
are a *run* of result rows: they differ in its columns alone. A run that begins with the same row as the run before, as
under every combination of siblings, is the same run, and is copied.

Most runs are short, so they are written STEP rows at a time without looking at where they end: the next run overwrites
the surplus, or it lies in the margin of the block.

Runs of ranges are copied from the `range_scan_cache`, as far as that has room.

The state between blocks is that of the stages. O(1) per row.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.enumeration_pipeline import LARGEST, OutputSet, Stages, is_left, refill, warm
from dynq_cli.engine.kernels.fields import Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.range_scan_cache import BEYOND, KNOWN, MOST, UNKNOWN, Trail, most_of, take_run

STEP = 8
# A run: its entry, where it starts, how long it is, where its like stands, the most copies of a row in it or more, and
# its place on the trail, or -1.
RUN = row_type("entry", "start", "length", "like", "most", "place")


class Runs(NamedTuple):
    """The runs of a block, and the rows of the innermost level in it, with a margin of STEP words."""

    each: Rows  # RUN
    rows: Words
    many: Words  # their multiplicities


@kernel(inline="always")
def _copy_step(column: Words, to: Int, start: Int) -> None:
    """Copy STEP words within a column; all are read before any is written."""
    a, b, c, d = column[start], column[start + 1], column[start + 2], column[start + 3]
    e, f, g, h = column[start + 4], column[start + 5], column[start + 6], column[start + 7]
    column[to], column[to + 1], column[to + 2], column[to + 3] = a, b, c, d
    column[to + 4], column[to + 5], column[to + 6], column[to + 7] = e, f, g, h


@kernel
def _outer_column(column: Words, codes: Words, runs: Rows, n: Int) -> None:
    """Write a column of an outer level: one code per run."""
    for k in range(n):
        run = runs[k]
        code, start = codes[run.entry], run.start
        for j in range(STEP):
            column[start + j] = code
        for to in range(start + STEP, start + run.length, STEP):
            for j in range(STEP):
                column[to + j] = code


@kernel
def _inner_column(
    words: Words, at: Int, stride: Int, column: Words, inner: Words, kept: Words, runs: Rows, n: Int
) -> None:
    """Write a column of the innermost level, at `at` in row 0 and on the trail in `kept`: gather it, or copy it."""
    for k in range(n):
        run = runs[k]
        start, length, like, place = run.start, run.length, run.like, run.place
        if place >= 0:
            for j in range(length):
                column[start + j] = kept[place + j]
            continue
        if like == start:
            for j in range(start, start + length):
                column[j] = words[at + inner[j] * stride]
            continue
        _copy_step(column, start, like)
        for done in range(STEP, length, STEP):
            _copy_step(column, start + done, like + done)


@kernel
def _fits(outer: Int, kept: Words, place: Int, length: Int) -> Int:
    """Whether the copies of a run on the trail fit 63 bits; of any other run the largest is known."""
    if place < 0:
        return False
    for j in range(length):
        if float(outer) * float(kept[place + j]) > LARGEST:
            return False
    return True


@kernel
def _copies(column: Words, many: Words, kept: Words, copies: Words, runs: Rows, n: Int) -> Int:
    """Write the copies of each row: those of the entry times those of the innermost row, from `many` or from the trail
    in `kept`. False if one does not fit 63 bits."""
    for k in range(n):
        run = runs[k]
        outer, start, like, place = copies[run.entry], run.start, run.like, run.place
        if float(outer) * float(run.most) > LARGEST and not _fits(outer, kept, place, run.length):
            return False
        if place >= 0:
            for j in range(run.length):
                column[start + j] = outer * kept[place + j]
            continue
        for done in range(0, run.length, STEP):
            for j in range(done, done + STEP):
                column[start + j] = outer * many[like + j]
    return True


@kernel
def fill(
    store: Store,
    output: OutputSet,
    counted: Int,
    stages: Stages,
    runs: Runs,
    trail: Trail,
    out: Words,
    out_copies: Words,
) -> tuple[Int, Int]:
    """Fill the columns of `out` (and `out_copies`, if counted), which have a margin of STEP words.

    Returns (rows written, whether more follow); (-1, _) if a multiplicity does not fit 63 bits.
    """
    size, s = out.shape[1] - STEP, len(output.levels)
    stage, before, inner, many = stages.state[s], stages.state[s - 1], runs.rows, runs.many
    node_id = output.levels[s - 1]
    node = store.nodes[node_id]
    table, following = store.tables[node.table], node.next
    start, stride = table.rows, table.stride
    filled, is_range = 0, node.readers >= 0
    # The last run that was gathered whole.
    head, tail, like, length, most = np.int64(-1), np.int64(-1), 0, 0, np.int64(1)
    while True:
        n, e, row, place = 0, stage.origin, stage.next, stage.place
        while filled < size and e < before.filled:
            if e == stage.warm:
                warm(store, output, s, stages)
            run = runs.each[n]
            run.place = -1
            if row < 0:
                row, place = stages.heads[s, e], np.int64(UNKNOWN)
            if is_range and place != BEYOND and (n == 0 or trail.state[KNOWN] < len(trail.rows)):
                run.place, length, row, place = take_run(
                    store, output, counted, trail, row, place, stages.tails[s, e], size - filled, n == 0
                )
                most = trail.state[MOST]
                if length < 0:
                    return -1, False
            elif row == head and stages.tails[s, e] == tail and filled + length <= size:
                row = np.int64(-1)
            else:
                head, tail, like = row, stages.tails[s, e], filled
                at = filled
                while row >= 0 and at < size:
                    inner[at] = row
                    at += 1
                    is_last = row == tail
                    row = np.int64(-1) if is_last else np.int64(store.halves[2 * (start + row * stride) + following])
                length = at - like
                if row >= 0:
                    head = np.int64(-1)
                if counted:
                    most = most_of(store, node_id, inner, many, like, at)
                    if most < 0:
                        return -1, False
            run.entry, run.start, run.length = e, filled, length
            run.like, run.most = like, most
            n += 1
            filled += length
            if row < 0:
                e += 1
        stage.origin, stage.next, stage.place = e, row, place
        for c in range(len(output.column_level)):
            if output.column_level[c] == s - 1:
                _inner_column(
                    store.words, start + output.column_position[c], stride, out[c], inner, trail.codes[c], runs.each, n
                )
            else:
                _outer_column(out[c], stages.codes[s - 1, c], runs.each, n)
        if counted and not _copies(out_copies, many, trail.many, stages.copies[s - 1], runs.each, n):
            return -1, False
        if not is_left(stages):
            return filled, False
        if filled == size:
            return filled, True
        if not refill(store, output, counted, stages):
            return -1, False
