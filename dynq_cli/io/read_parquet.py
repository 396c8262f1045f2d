"""Parquet, a few thousand rows at a time, with only the columns a spec can use.

Texts stay dictionary-encoded: a file of half a megabyte can hold a long text a million times,
which would be gigabytes when spelled out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from dynq_cli.io.arrow_types import NoTypeError, from_arrow
from dynq_cli.io.raw import META_COLUMNS, Raw

_BATCH = 16_384
_TEXTS = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)


def read(path: str, skim_after: int) -> Iterator[Raw]:
    with pq.ParquetFile(path) as plain:
        schema: pa.Schema = plain.schema_arrow
    texts = [f.name for f in schema if any(is_text(f.type) for is_text in _TEXTS)]
    with pq.ParquetFile(path, read_dictionary=texts, coerce_int96_timestamp_unit="us") as file:
        unusable = dict(_unusable(schema))
        names = [name for name in schema.names if name not in unusable]
        yield Raw(names, [pa.array([], schema.field(name).type) for name in names], 0, unusable)
        # Where rows are of several relations, or of deletes, NULLs of a whole group say too little.
        rows_differ = not {"_relation", "_change_type"}.isdisjoint(names)
        seen = 0
        for group in range(file.num_row_groups):
            meta = file.metadata.row_group(group)
            nulls = _null_counts(meta, names) if seen >= skim_after and not rows_differ else None
            if nulls is not None:
                yield Raw(names, [pa.array([], schema.field(name).type) for name in names], meta.num_rows, nulls=nulls)
            else:
                for batch in file.iter_batches(batch_size=_BATCH, row_groups=[group], columns=names):
                    yield Raw(batch.schema.names, batch.columns, batch.num_rows)
            seen += meta.num_rows


def _unusable(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    times = Counter(schema.names)
    for field in schema:
        if times[field.name] > 1:
            yield field.name, "the name stands twice in the schema"
        elif "." in field.name:
            yield field.name, "a name has letters, digits and _ only: rename it"
        else:
            try:
                from_arrow(field.type)
            except NoTypeError as error:
                yield field.name, str(error)


def _null_counts(meta: pq.RowGroupMetaData, names: list[str]) -> dict[str, int] | None:
    """How many NULLs each column of a row group has, if its statistics say so for all of them."""
    counts: dict[str, int] = {}
    for i in range(meta.num_columns):
        column = meta.column(i)
        if column.path_in_schema in names and column.path_in_schema not in META_COLUMNS:
            statistics = column.statistics
            if statistics is None or not statistics.has_null_count:
                return None
            counts[column.path_in_schema] = statistics.null_count
    return counts
