"""What came and went in a result over the shards of its group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from dynq_cli.engine.row_tests import RowTests
from dynq_cli.plan.shards import Placed
from dynq_cli.storage.shards.results import Result
from dynq_cli.storage.versions import Diff

_CHANGE, _COUNT = "_change_type", "_count"


def difference(several: Sequence[Diff], placed: Placed, old: Callable[[], Result], new: Callable[[], Result]) -> Diff:
    """Return the difference over all shards: those of the shards, or between the merged rows of both versions.

    O(changes) as for one state. Where reading merges copies or distinct rows, each changed row of a shard is looked up
    in the others; where it merges groups, all groups are read.
    """
    since, until, schema, _ = several[0]
    if placed.merge in ("none", "whole"):
        return Diff(since, until, schema, (batch for found in several for batch in found.batches))
    if until == since:
        return Diff(since, until, schema, iter(()))
    if placed.merge == "groups":
        return Diff(since, until, schema, _of_groups(old(), new(), schema))
    return Diff(since, until, schema, _looked_up(several, old(), new(), schema))


def _of_groups(old: Result, new: Result, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    before, after = (
        {tuple(map(_comparable, row.values())): row for batch in r.enum() for row in batch.to_pylist()}
        for r in (old, new)
    )
    gone = [row for key, row in before.items() if key not in after]
    come = [row for key, row in after.items() if key not in before]
    rows = [{**row, _CHANGE: "delete"} for row in gone] + [{**row, _CHANGE: "insert"} for row in come]
    if rows:
        yield from pa.Table.from_pylist(rows, schema=schema).to_batches()


def _comparable(value: object) -> object:
    return "NaN" if value != value else value


def _looked_up(several: Sequence[Diff], old: Result, new: Result, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Of each row that changed in some shard: its copies in all shards, before and after."""
    columns = RowTests(new.views[0], new.query).columns
    if not columns:
        rows = [any(True for batch in r.enum() if batch.num_rows) for r in (old, new)]
        if rows[0] != rows[1]:
            yield pa.RecordBatch.from_pylist([{_CHANGE: "insert" if rows[1] else "delete"}], schema=schema)
        return
    # A row is told of by the first shard in which it changed, once.
    for number, found in enumerate(several):
        for batch in found.batches:
            rows = batch.select(columns)
            is_first = np.ones(batch.num_rows, np.bool_)
            for i in range(number):
                is_first &= _tests(old, rows, i) == _tests(new, rows, i)
            before, after = old.tests(pa.Table.from_batches([rows])), new.tests(pa.Table.from_batches([rows]))
            changed = is_first & (before != after)
            kinds = pa.array(np.where(after > before, "insert", "delete"))
            made = {name: rows.column(name) for name in columns}
            made |= {_CHANGE: kinds.cast(schema.field(_CHANGE).type), _COUNT: pa.array(abs(after - before))}
            whole = pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)
            if changed.any():
                yield whole.filter(pa.array(changed))


def _tests(result: Result, rows: pa.RecordBatch, shard: int) -> np.ndarray:
    return RowTests(result.views[shard], result.query).copies(rows)
