"""The rows of a result with given values in some columns.

    rows_where(views, "q", {"x": 5})    the rows of `enum` whose x is 5

All columns: O(1). The first columns of the query's order: O(log n) per row, and nothing else is read. Else all rows are
read and compared as codes, without being decoded: O(rows).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dynq_cli.engine.engine import BLOCK, OverflowedError
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.merged_select import selection_of
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError


def is_found_in_order(views: Views, query: str, row: Mapping[str, Any]) -> bool:
    """Whether the columns are the first ones of the order, so that other rows are not read. O(columns)."""
    if not views.is_ordered(query) or not row or not views.is_told_apart(query):
        return False
    given = views.codes_given(query, row)
    order = [o.variable for o in views.order_of(query)]
    return given is not None and set(order[: len(given)]) == set(given)


def rows_where(views: Views, query: str, row: Mapping[str, Any], block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Yield the distinct rows with the values of `row`, by output columns, in the order of `enum`.

    UsageError if the result has no such column; RejectedError if a value does not fit its column.
    """
    views.require(query, "enum")
    given = views.codes_given(query, row)
    if given is None:
        return iter(())
    if views.is_told_apart(query) and set(views.form_of(query).head) <= set(given):
        return _batches(views, query, _looked_up(views, query, given))
    read = _in_order if is_found_in_order(views, query, row) else _compared
    return _batches(views, query, read(views, query, given, block))


def _batches(views: Views, query: str, found: Iterator[tuple[Words, Words]]) -> Iterator[pa.RecordBatch]:
    schema, variables = views.schema(query), views.variables(query)
    try:
        for codes, copies in found:
            columns = views.decoded(query, variables, np.ascontiguousarray(codes), len(copies))
            if schema.names[-1:] == ["_count"]:
                columns.append(pa.array(copies))
            if columns:
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
            else:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(copies), pa.struct([])))
    except OverflowedError:
        raise RejectedError(f"query {query}: a row has more than 2^63 - 1 copies; use semantics: set") from None


def _looked_up(views: Views, query: str, given: Mapping[str, int]) -> Iterator[tuple[Words, Words]]:
    copies = views.engine.copies(query, given)
    if copies:
        codes = np.array([[given[v]] for v in views.variables(query)], np.int64).reshape(-1, 1)
        yield codes, np.array([copies], np.int64)


def _compared(views: Views, query: str, given: Mapping[str, int], block: int) -> Iterator[tuple[Words, Words]]:
    variables = views.variables(query)
    places = [variables.index(v) for v in given]
    values = np.array(list(given.values()), np.int64).reshape(-1, 1)
    for codes, copies in views.engine.blocks(query, variables, block):
        here = (codes[places] == values).all(axis=0)
        if here.any():
            yield codes[:, here], copies[here]


def _in_order(views: Views, query: str, given: Mapping[str, int], block: int) -> Iterator[tuple[Words, Words]]:
    variables = views.variables(query)
    selection = selection_of(views.engine, query, variables)
    place = selection.place(views.bounds_of_codes(query, given))
    at, end = place.first, place.first + place.copies
    while at < end:
        # Copies of a row are adjacent: of the positions read, the first of each row counts.
        codes = selection.at(range(at, min(at + block, end)))
        is_new = np.ones(codes.shape[1], np.bool_)
        is_new[1:] = (codes[:, 1:] != codes[:, :-1]).any(axis=0)
        rows = codes[:, is_new]
        heads = (dict(zip(variables, column, strict=True)) for column in rows.T.tolist())
        copies = np.array([views.engine.copies(query, head) for head in heads], np.int64)
        yield rows, copies
        at += int(copies.sum()) if views.form_of(query).semantics == "bag" else len(copies)
