"""Revert an engine to an earlier version, and compute the difference of a result between two versions.

    old = went_back(open, nets, "q")
    diff(old, new, "q")    record batches: a change log that leads from the old result to the new one

`old` is opened like `new`; then the net delta of the versions since is reverted, so reading it reads the old version.
Any number of marks needs only one log of changes; no result is stored for a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa

from dynq_cli.engine.consolidate import NetDelta
from dynq_cli.engine.difference import differences, is_noted, watch
from dynq_cli.engine.engine import BLOCK
from dynq_cli.engine.net_delta import take_back
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError

# The expected maximum number of frontier rows that a change touches. If it is exceeded, the old version is opened again
# with more room.
_ROOM_PER_CHANGE = 4
_LEAST_ROOM = 4096


@lru_cache(4)
def _words(word: str, many: int) -> pa.Array:
    return pa.repeat(pa.scalar(word), many)


def _word(word: str, many: int) -> pa.Array:
    """Return an array of `many` equal words, sliced from a longer cached array."""
    return _words(word, 1 << (many - 1).bit_length())[:many]


def diff_schema(views: Views, query: str) -> pa.Schema:
    """Return the columns of a result's difference: its own, `_change_type`, and `_count` for bags."""
    schema = views.schema(query)
    at = len(schema) - (schema.names[-1:] == ["_count"])
    return schema.insert(at, pa.field("_change_type", pa.string(), False))


def went_back(opened: Callable[[], Views], nets: Mapping[str, NetDelta], query: str | None = None) -> Views:
    """Open views and revert the net delta. With `query`, the engine has listed the frontier rows that changed."""
    room = _LEAST_ROOM + _ROOM_PER_CHANGE * sum(len(n.delta) for n in nets.values())
    while True:
        views = opened()
        if query is not None:
            watch(views.engine, query, room)
        take_back(views, nets)
        if query is None or is_noted(views.engine, query):
            return views
        room *= 16


def diff(old: Views, new: Views, query: str, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Yield the rows deleted and inserted from the old version, made by `went_back` from the new one, to the new one.

    O(reverted changes + changed rows), independent of the size of the result.
    """
    schema = diff_schema(new, query)
    variables = new.variables(query)
    try:
        for changed in differences(old.engine, new.engine, query, variables, block):
            many = len(changed.copies)
            columns = new.decoded(query, variables, changed.codes, many)
            columns.append(_word("insert" if changed.is_insert else "delete", many))
            if schema.names[-1:] == ["_count"]:
                columns.append(pa.array(np.ascontiguousarray(changed.copies)))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except OverflowedError:
        raise RejectedError(f"query {query}: a row has more than 2^63 - 1 copies; use semantics: set") from None
