"""Read data files as a stream of pieces: some rows of one relation, a few thousand at a time.

Memory is that of a piece, whatever the size of a file. Columns that change logs carry for
themselves (`_change_type` and the like) are read here and do not appear among a piece's columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.io import read_arrow, read_csv, read_jsonl, read_parquet
from dynq_cli.io.damage import refusing
from dynq_cli.io.data_files import DataFile, relation_name
from dynq_cli.io.raw import META_COLUMNS, Raw
from dynq_cli.values.convert import without_views

_GONE = pa.array(["delete", "update_preimage"])


@dataclass(frozen=True)
class Piece:
    """Some rows of one relation.

    `live` marks the rows that say what a row of the relation looks like: not those of deletes,
    which may carry only the key. `inserted` marks the rows that are new: a key occurs in them once.
    None means all rows.
    """

    relation: str
    file: DataFile
    rows: int
    columns: dict[str, pa.Array]
    unusable: dict[str, str]
    nulls: dict[str, int] | None = None
    live: pa.BooleanArray | None = None
    inserted: pa.BooleanArray | None = None
    by_column: bool = False


def read_pieces(file: DataFile, skim_after: int) -> Iterator[Piece]:
    """All rows of a file; where statistics are at hand, rows past `skim_after` are only counted.

    Raises RejectedError, naming the file, for whatever is wrong with it.
    """
    with refusing(file.path, file.format):
        for raw in _reader(file, skim_after):
            yield from _pieces(file, raw)


def _reader(file: DataFile, skim_after: int) -> Iterator[Raw]:
    if file.format == "parquet":
        return read_parquet.read(file.path, skim_after)
    readers = {"csv": read_csv.read, "arrow": read_arrow.read, "jsonl": read_jsonl.read}
    return readers[file.format](file.path)


def _pieces(file: DataFile, raw: Raw) -> Iterator[Piece]:
    for values in raw.columns:
        values.validate(full=True)  # Arrow trusts offsets and UTF-8: unchecked, a damaged file is read past its end
    meta: dict[str, pa.Array] = {}
    columns: dict[str, pa.Array] = {}
    unusable = dict(raw.unusable)
    for name, values in zip(raw.names, raw.columns, strict=True):
        if name in META_COLUMNS:
            meta.setdefault(name, without_views(values))
        elif name in columns:
            unusable[name] = "the name stands twice in the header"
        else:
            columns[name] = without_views(values)
    live = inserted = None
    if "_change_type" in meta and raw.nulls is None:
        change = pc.utf8_lower(_plain(meta["_change_type"]).cast(pa.string()))
        live = pc.invert(pc.is_in(change, value_set=_GONE))
        inserted = pc.fill_null(pc.equal(change, "insert"), False)
    whole = Piece(file.relation, file, raw.rows, columns, unusable, raw.nulls, live, inserted)
    if "_relation" not in meta or raw.nulls is not None:
        yield whole
        return
    relations = _plain(meta["_relation"]).cast(pa.string())
    for relation in pc.unique(relations.drop_null()).to_pylist():
        yield _only(whole, relation_name(relation), pc.fill_null(pc.equal(relations, relation), False))


def _only(whole: Piece, relation: str, mask: pa.BooleanArray) -> Piece:
    return Piece(
        relation,
        whole.file,
        mask.true_count,
        {name: values.filter(mask) for name, values in whole.columns.items()},
        whole.unusable,
        None,
        None if whole.live is None else whole.live.filter(mask),
        None if whole.inserted is None else whole.inserted.filter(mask),
        by_column=True,
    )


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
