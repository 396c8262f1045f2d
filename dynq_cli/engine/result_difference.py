"""Compare the results of two engines that have nothing in common: neither rows, nor ids, nor dictionaries.

    difference_to(old, new, "q", …)    record batches: a change log that leads from the old result to the new one

Where one engine went on from the other, `versions.diff` costs what changed. Here both results are read and held as
Arrow: O(rows of both) time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dynq_cli.engine.versions import diff_schema
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError

_COPIES, _KIND = "_count", "_change_type"


def difference_to(
    old: Views, new: Views, query: str, version: int, block: int, *, from_nothing: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows deleted and inserted; at once, so that errors are raised before the first.

    RejectedError if the old views, of `version`, lack the query or its columns; with `from_nothing` all rows came.
    """
    schema = diff_schema(new, query)
    if query not in old.queries or not _fits(diff_schema(old, query), schema):
        if not from_nothing:
            why = "was not there" if query not in old.queries else "had other columns"
            raise RejectedError(
                f"query {query} {why} at version {version}: there is no difference since then\n"
                "  hint: a later --since, or `dynq enum` for all rows"
            )
        before = _signed(new, query, -1).slice(0, 0)
    else:
        before = _signed(old, query, -1)
        before = before.cast(pa.schema([*new.schema(query)][: before.num_columns - 1]).append(before.schema.field(-1)))
    return iter(_changes(before, _signed(new, query, 1), schema).to_batches(max_chunksize=block))


def _fits(before: pa.Schema, after: pa.Schema) -> bool:
    """Whether the columns have the same names, and the same or wider types."""
    if before.names != after.names:
        return False
    for was, now in zip(before.types, after.types, strict=True):
        exact = all(pt.is_integer(kind) or pt.is_decimal(kind) for kind in (was, now))
        if was != now and not (exact or (pt.is_floating(was) and pt.is_floating(now))):
            return False
    return True


def _signed(views: Views, query: str, sign: int) -> pa.Table:
    """Return a result with its copies, negative for an old one; a set has one copy of each row."""
    schema = views.schema(query)
    table = pa.Table.from_batches(views.enum(query), schema)
    if schema.names[-1:] != [_COPIES]:
        return table.append_column(_COPIES, pa.repeat(pa.scalar(sign, pa.int64()), len(table)))
    return table.set_column(len(schema) - 1, _COPIES, pc.multiply(table[_COPIES], sign))


def _changes(before: pa.Table, after: pa.Table, schema: pa.Schema) -> pa.Table:
    both = pa.concat_tables([before, after])
    names = both.column_names[:-1]
    # Names may be those of columns of the result, so they are numbers while rows are grouped.
    numbered = both.rename_columns([*map(str, range(len(names))), "copies"])
    keys = [str(i) for i in range(len(names))]
    summed = numbered.group_by(keys).aggregate([("copies", "sum")])
    changed = summed.filter(pc.not_equal(summed["copies_sum"], 0))
    copies = changed["copies_sum"]
    columns = [changed[key] for key in keys]
    columns.append(pc.if_else(pc.greater(copies, 0), "insert", "delete"))
    if schema.names[-1:] == [_COPIES]:
        columns.append(pc.abs(copies))
    return pa.Table.from_arrays(columns, schema=schema)
