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
from dynq_cli.engine.difference import differences, watch
from dynq_cli.engine.engine import BLOCK
from dynq_cli.engine.net_delta import take_back
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.tree_delta import Signed
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError


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
    """Open views and revert the net delta. With `query`, the engine has noted what changed in its trees."""
    views = opened()
    if query is not None:
        watch(views.engine, query)
    take_back(views, nets)
    return views


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


def told_rows(views: Views, query: str, delta: Signed, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Yield a delta that was read within its commits, as `diff` yields the difference. O(rows)."""
    schema, variables = diff_schema(views, query), views.variables(query)
    head, (codes, net) = list(views.form_of(query).head), delta
    wanted = [head.index(v) for v in variables]
    for sign, word in ((-1, "delete"), (1, "insert")):
        rows = np.flatnonzero(np.sign(net) == sign)
        for start in range(0, len(rows), block):
            some = rows[start : start + block]
            columns = views.decoded(query, variables, codes[:, some][wanted], len(some))
            columns.append(_word(word, len(some)))
            if schema.names[-1:] == ["_count"]:
                columns.append(pa.array(np.abs(net[some])))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
