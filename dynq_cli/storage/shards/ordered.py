"""Merge rows that come in one order from several shards, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from dynq_cli.query.normal_form import VariableOrder


def merged(
    streams: Sequence[Iterator[pa.RecordBatch]], order: Sequence[VariableOrder], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all streams in their common order, by output columns. O(block · streams) memory."""
    sources = list(streams)
    pending: list[pa.Table] = [schema.empty_table() for _ in sources]
    is_open = [True] * len(sources)
    while True:
        for i, source in enumerate(sources):
            while is_open[i] and not len(pending[i]):
                batch = next(source, None)
                if batch is None:
                    is_open[i] = False
                else:
                    pending[i] = pa.Table.from_batches([batch], schema)
        alive = [i for i, rows in enumerate(pending) if len(rows)]
        if not alive:
            return
        if len(alive) == 1 and not any(is_open[i] for i in range(len(sources)) if i != alive[0]):
            yield from pending[alive[0]].to_batches()
            pending[alive[0]] = schema.empty_table()
            continue
        together = pa.concat_tables([pending[i] for i in alive]).combine_chunks()
        sorted_rows = np.lexsort([_key(together[o.variable], o) for o in reversed(order)])
        # Rows behind the last one known of a stream may have others of that stream before them.
        ends = np.cumsum([len(pending[i]) for i in alive])
        place = np.empty(len(together), np.int64)
        place[sorted_rows] = np.arange(len(together))
        ready = min([int(place[end - 1]) + 1 for end, i in zip(ends, alive, strict=True) if is_open[i]], default=None)
        taken = sorted_rows if ready is None else sorted_rows[:ready]
        yield from together.take(pa.array(taken)).combine_chunks().to_batches()
        starts = np.append(0, ends[:-1])
        for start, end, i in zip(starts, ends, alive, strict=True):
            gone = int(np.count_nonzero((taken >= start) & (taken < end)))
            pending[i] = pending[i].slice(gone)


def _key(values: pa.ChunkedArray, order: VariableOrder) -> NDArray[np.int64]:
    """Return numbers that stand in the order of the values: NaN above all, NULL where the order says."""
    column = values.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], values.type)
    empty = column.is_null().to_numpy(zero_copy_only=False)
    if pt.is_floating(column.type):
        found = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
        ranks = np.unique(found, return_inverse=True)[1].astype(np.int64)
    elif pt.is_integer(column.type):
        ranks = np.unique(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), return_inverse=True)[1]
    else:
        ranks = pc.rank(column, "ascending", null_placement="at_start", tiebreaker="dense").to_numpy().astype(np.int64)
    ranks = ranks.astype(np.int64)
    if order.descending:
        ranks = -ranks
    # NULL is the least value unless the order says otherwise.
    first = not order.descending if order.nulls_first is None else order.nulls_first
    ranks[empty] = np.iinfo(np.int64).min if first else np.iinfo(np.int64).max
    return ranks
