"""Read Parquet, some rows at a time, and only the columns that are asked for.

Texts stay dictionary-encoded where they have to: a file of half a megabyte can hold a long text a million
times, which would be gigabytes when spelled out. Short texts that hardly repeat are read plain, four times as fast.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from dynq_cli.errors import RejectedError
from dynq_cli.io.arrow_types import NoTypeError, from_arrow
from dynq_cli.io.old_calendar import counts_by_it, refuse_old_days
from dynq_cli.io.parquet_footer import BYTE_ARRAY, Chunk, Footer, Pages, read_footer, read_pages
from dynq_cli.io.raw import META_COLUMNS, Raw
from dynq_cli.io.sizes import MOST_BYTES, MOST_ROWS

_BATCH = 16_384
_SHORT = 256  # bytes: a batch of MOST_ROWS such texts is read plain
_LENGTH_PREFIX = 4  # bytes that a text takes in Parquet at least, unless it is in a dictionary
_WIDEST = 16  # bytes of a decimal, the widest value of a fixed width
_LONGEST = 64 << 20  # bytes of a text, as the metadata has it: more would have to be in memory several times
_WHOLE = 64 << 20  # bytes of a file whose row groups are fetched in one go
_FEW = 2_048  # rows: batches of less are put together
_MOST_SPELLED_OUT = 256 << 20  # bytes of a batch in which each text is as long as its page
_TEXTS = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)


def read(path: str, skim_after: int) -> Iterator[Raw]:
    footer = read_footer(path)
    with _opened(path, footer) as plain:
        schema: pa.Schema = plain.schema_arrow
    unusable = dict(_unusable(schema))
    names = [name for name in schema.names if name not in unusable]
    pages = _pages_by_leaf(path, footer, set(names))
    texts = [name for name in names if _is_text(schema.field(name).type) and not _has_deltas(pages.get(name, ()))]
    rows_at_once = _most_rows(_BATCH, pages)
    with _opened(path, footer, read_dictionary=texts, coerce_int96_timestamp_unit="us") as file:
        yield Raw(names, [pa.array([], schema.field(name).type) for name in names], 0, unusable)
        # Where rows are of several relations, or of deletes, NULLs of a whole group say too little.
        rows_differ = not {"_relation", "_change_type"}.isdisjoint(names)
        seen = 0
        for group, rows in enumerate(footer.rows):
            nulls = _null_counts(footer.groups[group], names) if seen >= skim_after and not rows_differ else None
            if nulls is not None:
                yield Raw(names, [pa.array([], schema.field(name).type) for name in names], rows, nulls=nulls)
            else:
                for batch in _batches(file, footer, group, names, rows_at_once):
                    yield Raw(batch.schema.names, batch.columns, batch.num_rows)
            seen += rows


def _opened(path: str, footer: Footer, **options: Any) -> pq.ParquetFile:
    """The file, read by its checked footer. Pages that carry a checksum are compared with it."""
    return pq.ParquetFile(path, metadata=footer.metadata, page_checksum_verification=True, **options)


def _batches(file: pq.ParquetFile, footer: Footer, group: int, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a row group. ValueError where there are more or less than the footer says."""
    read = 0
    few = file.iter_batches(batch_size=rows, row_groups=[group], columns=names)
    for batch in few if rows >= _FEW else _gathered(few):
        read += batch.num_rows
        yield batch
    if read != footer.rows[group]:
        raise ValueError(f"row group {group + 1} has {read:,} rows where the footer says {footer.rows[group]:,}")


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of a few rows put together, as far as they are small: each costs what a thousand rows cost."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _BATCH or sum(b.nbytes for b in held) >= MOST_BYTES:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _pages_by_leaf(path: str, footer: Footer, columns: Collection[str]) -> dict[str, list[tuple[Chunk, Pages]]]:
    """The pages of all leaves of these columns, by the leaf's path: one entry per row group."""
    found: dict[str, list[tuple[Chunk, Pages]]] = {}
    for group in footer.groups:
        for chunk in group:
            if chunk.leaf.path.split(".")[0] in columns or chunk.leaf.path in columns:
                found.setdefault(chunk.leaf.path, []).append((chunk, read_pages(path, chunk)))
    return found


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


def _null_counts(group: Collection[Chunk], names: list[str]) -> dict[str, int] | None:
    """How many NULLs each column of a row group has, if its statistics say so for all of them."""
    counts: dict[str, int] = {}
    for chunk in group:
        name = chunk.leaf.path
        if name in names and name not in META_COLUMNS:
            if chunk.nulls is None:
                return None
            counts[name] = chunk.nulls
    return counts


def schema(path: str) -> pa.Schema:
    """The columns, and what the file says about itself."""
    with _opened(path, read_footer(path)) as file:
        return file.schema_arrow


def rows_in(path: str) -> int:
    """The rows of a file, by its metadata."""
    return sum(read_footer(path).rows)


def stream(path: str, wanted: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """The columns `wanted` of all rows (None: all but lists and maps), checked; no name stands twice.

    Memory is that of a batch, at most about MOST_BYTES, and of Parquet's pages; what a batch stands for, in
    dictionaries, may be more. Columns are decoded in parallel. Structs come without the lists in them.
    """
    footer = read_footer(path)
    with _opened(path, footer) as file:
        declared = file.schema_arrow
    fields = [field for field in declared if wanted is None or field.name in wanted]
    leaves = {leaf: kind for field in fields for leaf, kind in _leaves(field)}
    if wanted is not None:
        _refuse_lists(path, fields, leaves)
    pages = {leaf: found for leaf, found in _pages_by_leaf(path, footer, leaves).items() if leaf in leaves}
    _refuse_long_texts(path, pages)
    coded = [leaf for leaf in pages if _is_text(leaves[leaf]) and _stays_coded(path, footer, leaf, pages[leaf])]
    rows = _most_rows(max(1, min(MOST_ROWS, MOST_BYTES // _row_bytes(footer, pages, coded))), pages)
    with _opened(
        path,
        footer,
        read_dictionary=coded,
        coerce_int96_timestamp_unit="us",
        pre_buffer=os.path.getsize(path) <= _WHOLE,
    ) as file:
        has_old_days, first = counts_by_it(footer.metadata.metadata), 1
        inside = [leaf for field in fields if pt.is_struct(field.type) for leaf, _ in _leaves(field)]
        for group in range(len(footer.groups)):
            _check_structs(file, group, inside, rows)
            for batch in _batches(file, footer, group, list(leaves), rows):
                if has_old_days:
                    refuse_old_days(path, batch, first)
                first += batch.num_rows
                for column in batch.columns:
                    if not pt.is_primitive(column.type):
                        column.validate(full=True)  # indices past a dictionary's end, texts that are not UTF-8
                yield batch


def _check_structs(file: pq.ParquetFile, group: int, leaves: Sequence[str], rows: int) -> None:
    """ValueError where the leaves of a struct differ on where it is NULL: each says so by itself, and Arrow asks one.

    Reads the leaves of structs that have several once more.
    """
    above = {leaf: [leaf[:i] for i, mark in enumerate(leaf) if mark == "."] for leaf in leaves}
    times = Counter(struct for structs in above.values() for struct in structs)
    seen: dict[str, pa.BooleanArray] = {}
    for leaf, structs in above.items():
        if all(times[struct] == 1 for struct in structs):
            continue
        found: dict[str, list[pa.BooleanArray]] = {struct: [] for struct in structs}
        for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=[leaf]):
            column = batch.column(0)
            for struct in structs:
                found[struct].append(column.is_null())
                column = column.field(0)
        for struct, parts in found.items():
            nulls = pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())
            if not seen.setdefault(struct, nulls).equals(nulls):
                raise ValueError(f"the columns of the struct {struct} differ on where it is NULL")


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


def _refuse_long_texts(path: str, pages: Mapping[str, Sequence[tuple[Chunk, Pages]]]) -> None:
    """A file of some kilobytes can hold a text of two gigabytes, which Arrow unpacks in one go."""
    for leaf, found in pages.items():
        for chunk, of_chunk in found:
            if chunk.leaf.type == BYTE_ARRAY and of_chunk.longest > _LONGEST:
                raise RejectedError(
                    f"{path}: column {leaf} has texts of {of_chunk.longest:,} bytes,"
                    f" and {_LONGEST:,} is the most that can be read"
                )


def _is_text(kind: pa.DataType) -> bool:
    return any(is_text(kind) for is_text in _TEXTS)


def _stays_coded(path: str, footer: Footer, leaf: str, pages: Sequence[tuple[Chunk, Pages]]) -> bool:
    """Whether a text is read as a dictionary: if it repeats a lot, or if it is long and could."""
    if _has_deltas(pages):
        return False  # Arrow makes no dictionaries of them
    for group, (chunk, of_chunk) in enumerate(pages):
        if of_chunk.unpacked < _LENGTH_PREFIX * chunk.values:
            return True
        if of_chunk.has_dictionary and _longest(path, footer, leaf, group) > _SHORT:
            return True
    return False


def _has_deltas(pages: Sequence[tuple[Chunk, Pages]]) -> bool:
    return any(chunk.leaf.type == BYTE_ARRAY and of_chunk.has_deltas for chunk, of_chunk in pages)


def _most_rows(rows: int, pages: Mapping[str, Sequence[tuple[Chunk, Pages]]]) -> int:
    """At most `rows`, less where texts that are read plain may each be as long as a page.

    So may those that share prefixes, and those of a dictionary next to pages of deltas.
    """
    for found in pages.values():
        if _has_deltas(found) and any(p.has_prefixes or p.has_dictionary for _, p in found):
            rows = min(rows, max(1, _MOST_SPELLED_OUT // max(of_chunk.largest for _, of_chunk in found)))
    return rows


def _longest(path: str, footer: Footer, leaf: str, group: int) -> int:
    """The length of the longest text in the dictionary of a row group, at the cost of reading the dictionary."""
    with _opened(path, footer, read_dictionary=[leaf]) as file:
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=[leaf]):
            values = batch.column(0)
            while pt.is_struct(values.type):
                values = values.field(0)
            return pc.max(pc.binary_length(values.dictionary)).as_py() or 0
    return 0


def _row_bytes(footer: Footer, pages: Mapping[str, Sequence[tuple[Chunk, Pages]]], coded: Collection[str]) -> int:
    """About how many bytes a row takes in memory, texts by what they take in the file."""
    total = 1
    for leaf in footer.leaves:
        found = pages.get(leaf.path, ())
        if not found:
            continue
        if leaf.type != BYTE_ARRAY or leaf.path in coded:
            total += max(_WIDEST, leaf.width)
            continue
        total += max(of_chunk.unpacked // max(chunk.rows, 1) for chunk, of_chunk in found) + _WIDEST
    return total
