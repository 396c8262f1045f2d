"""Parquet, some rows at a time, with only the columns that are asked for.

Texts stay dictionary-encoded where they have to: a file of half a megabyte can hold a long text a million
times, which would be gigabytes when spelled out. Short texts that hardly repeat are read plain, four times as fast.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from dynq_cli.errors import RejectedError
from dynq_cli.io.arrow_types import NoTypeError, from_arrow
from dynq_cli.io.old_calendar import counts_by_it, refuse_old_days
from dynq_cli.io.raw import META_COLUMNS, Raw
from dynq_cli.io.sizes import MOST_BYTES, MOST_ROWS

_BATCH = 16_384
_SHORT = 256  # bytes: a batch of MOST_ROWS such texts is read plain
_LENGTH_PREFIX = 4  # bytes that a text takes in Parquet at least, unless it is in a dictionary
_WIDEST = 16  # bytes of a decimal, the widest value of a fixed width
_LONGEST = 64 << 20  # bytes of a text, as the metadata has it: more would have to be in memory several times
_WHOLE = 64 << 20  # bytes of a file whose row groups are fetched in one go
_TEXTS = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)


def read(path: str, skim_after: int) -> Iterator[Raw]:
    with pq.ParquetFile(path) as plain:
        schema: pa.Schema = plain.schema_arrow
    texts = [field.name for field in schema if _is_text(field.type)]
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


def schema(path: str) -> pa.Schema:
    """The columns, and what the file says about itself."""
    with pq.ParquetFile(path) as file:
        return file.schema_arrow


def rows_in(path: str) -> int:
    """The rows of a file, by its metadata."""
    with pq.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def stream(path: str, wanted: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """The columns `wanted` of all rows (None: all but lists and maps), checked; no name stands twice.

    Memory is that of a batch, at most about MOST_BYTES, and of Parquet's pages; what a batch stands for, in
    dictionaries, may be more. Columns are decoded in parallel. Structs come without the lists in them.
    """
    with pq.ParquetFile(path) as file:
        declared, metadata = file.schema_arrow, file.metadata
    fields = [field for field in declared if wanted is None or field.name in wanted]
    leaves = {leaf: kind for field in fields for leaf, kind in _leaves(field)}
    if wanted is not None:
        _refuse_lists(path, fields, leaves)
    indices = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path in leaves]
    _refuse_long_texts(path, metadata, indices)
    coded = [leaf for leaf in leaves if _is_text(leaves[leaf]) and _stays_coded(path, metadata, leaf, indices)]
    rows = max(1, min(MOST_ROWS, MOST_BYTES // _row_bytes(metadata, indices, coded)))
    with pq.ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=coded,
        coerce_int96_timestamp_unit="us",
        pre_buffer=os.path.getsize(path) <= _WHOLE,
    ) as file:
        has_old_days, first = counts_by_it(metadata.metadata), 1
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=list(leaves)):
                if has_old_days:
                    refuse_old_days(path, batch, first)
                first += batch.num_rows
                for column in batch.columns:
                    if not pt.is_primitive(column.type):
                        column.validate(full=True)  # indices past a dictionary's end, texts that are not UTF-8
                yield batch


def _leaves(field: pa.Field, above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """What a column consists of, as Parquet names it: itself, or the fields of a struct; no lists and maps."""
    path = f"{above}{field.name}"
    if pt.is_struct(field.type):
        for i in range(field.type.num_fields):
            yield from _leaves(field.type.field(i), f"{path}.")
    elif not pt.is_nested(field.type):
        yield path, field.type


def _refuse_lists(path: str, fields: Collection[pa.Field], leaves: Collection[str]) -> None:
    for field in fields:
        if not pt.is_struct(field.type) and field.name not in leaves:
            raise RejectedError(
                f"{path}: column {field.name} has the type {field.type}, which no type of a spec holds:"
                " flatten it, or leave it out of the spec"
            )


def _refuse_long_texts(path: str, metadata: pq.FileMetaData, indices: Collection[int]) -> None:
    """A file of some kilobytes can hold a text of two gigabytes, which Arrow unpacks in one go."""
    for group in range(metadata.num_row_groups):
        for i in indices:
            column = metadata.row_group(group).column(i)
            size = column.total_uncompressed_size // max(column.num_values, 1)
            if column.physical_type == "BYTE_ARRAY" and size > _LONGEST:
                raise RejectedError(
                    f"{path}: column {column.path_in_schema} has texts of {size:,} bytes,"
                    f" and {_LONGEST:,} is the most that can be read"
                )


def _is_text(kind: pa.DataType) -> bool:
    return any(is_text(kind) for is_text in _TEXTS)


def _stays_coded(path: str, metadata: pq.FileMetaData, leaf: str, indices: Collection[int]) -> bool:
    """Whether a text is read as a dictionary: if it repeats a lot, or if it is long and could."""
    index = next(i for i in indices if metadata.schema.column(i).path == leaf)
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(index)
        if column.total_uncompressed_size < _LENGTH_PREFIX * column.num_values:
            return True
        if any(encoding.startswith("DELTA") for encoding in column.encodings):
            return True
        if column.has_dictionary_page and _longest(path, metadata, leaf, group) > _SHORT:
            return True
    return False


def _longest(path: str, metadata: pq.FileMetaData, leaf: str, group: int) -> int:
    """The length of the longest text in the dictionary of a row group, at the cost of reading the dictionary."""
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=[leaf]) as file:
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=[leaf]):
            values = batch.column(0)
            while pt.is_struct(values.type):
                values = values.field(0)
            return pc.max(pc.binary_length(values.dictionary)).as_py() or 0
    return 0


def _row_bytes(metadata: pq.FileMetaData, indices: Collection[int], coded: Collection[str]) -> int:
    """About how many bytes a row takes in memory, texts by what they take in the file."""
    total = 1
    for i in indices:
        column = metadata.schema.column(i)
        if column.physical_type != "BYTE_ARRAY" or column.path in coded:
            total += max(_WIDEST, column.length)
            continue
        groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
        total += max((g.column(i).total_uncompressed_size // max(g.num_rows, 1) for g in groups), default=0) + _WIDEST
    return total
