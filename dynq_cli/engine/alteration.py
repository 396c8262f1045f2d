"""Move base rows into views of a changed spec: columns dropped, added, widened; keys added where they hold.

    refuse_lossy(kept, given)                    RejectedError for columns that would lose values
    moved(old, new, "orders", fill)              inserts the rows of `old` into `new`, which has none

Rows go through Arrow, so both engines may have other codes, dictionaries and layouts. A new column is NULL, or has the
value of the `Fill` that has the row's key. O(rows), and what the new views cost to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.engine.base_rows import base_rows, base_schema
from dynq_cli.engine.codes import Codes, arrow_type, decode, encode
from dynq_cli.engine.engine import BatchError
from dynq_cli.engine.kernels import base as kernels
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import widen
from dynq_cli.values.convert import convert, spelled

_COPIES = "_count"
_SHOWN = 3


def refuse_lossy(kept: Spec, given: Spec) -> None:
    """Raise RejectedError, with all places, if a column of the given spec cannot hold every value it had."""
    found = []
    for relation in given.relations:
        before = kept.relation(relation.name)
        for column in relation.columns if before else ():
            old = before.column(column.name) if before else None
            if old is None or old.type == column.type or widen(old.type, column.type) == column.type:
                continue
            wide = widen(old.type, column.type)
            hint = f"write {wide}" if wide else "add a column of the new type under another name, and fill it by --load"
            found.append(
                f"{column.place}: column {column.name} of {relation.name} was {old.type} and cannot become "
                f"{column.type}: values could be lost\n  hint: {hint}"
            )
    if found:
        raise RejectedError("\n".join(found))


def fill_relation(after: Relation, filled: Collection[str]) -> Relation:
    """Return the relation of a fill: the key, and the new columns that have values."""
    return Relation(after.name, tuple(c for c in after.columns if c.name in {*after.key, *filled}), after.key)


class Fill:
    """Values of new columns by key: the rows of `views`, whose relation is a `fill_relation`."""

    def __init__(self, views: Views, relation: Relation) -> None:
        self._views, self._base = views, views.base(relation.name)
        self.relation = relation
        self.rows = int(views.engine.arena.tables["live"][self._base.table])
        self.used = 0

    def columns(self, keys: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the new columns for the rows with these keys, NULL where there is no such key. O(rows)."""
        arena, order, dictionaries = self._views.engine.arena, self._base.order, self._views.dictionaries
        codes = np.zeros((keys.num_rows, len(order)), np.int64)
        for at, name in enumerate(self.relation.key):
            codes[:, at] = encode(keys.column(name), self._column(name).type, dictionaries, intern=False)
        rows = np.empty(keys.num_rows, np.int64)
        kernels.look_up(arena.store, self._base.table, codes, rows)
        there = rows >= 0
        self.used += int(there.sum())
        table = arena.tables[self._base.table]
        first, stride = int(table["rows"]), int(table["stride"])
        records: Codes = arena.words[first : first + int(table["used"]) * stride].reshape(-1, stride)
        found = {}
        taken = pa.array(np.cumsum(there) - 1, mask=~there)
        for column in self.relation.columns:
            if column.name not in self.relation.key:
                values = records[rows[there], order.index(column.name)]
                found[column.name] = decode(values, column.type, dictionaries).take(taken)
        return found

    def _column(self, name: str) -> Column:
        found = self.relation.column(name)
        assert found is not None
        return found


@dataclass
class Moved:
    """Rows of a relation, those among them that found no value in the fill, and the fill's keys without a row."""

    rows: int = 0
    unfilled: int = 0
    unused: int = 0


def moved(
    old: Views,
    new: Views,
    relation: str,
    fill: Fill | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    block: int = 1 << 17,
) -> Moved:
    """Insert the rows of a relation of `old` into `new`. RejectedError if one does not fit the new relation."""
    after, found = new.base(relation).relation, Moved()
    for rows in base_rows(old, relation, block):
        table = _altered(rows, after, fill)
        _refuse_null(table, rows, old.base(relation).relation, after, fill)
        batch = new.changes({relation: table})
        try:
            new.attempt(batch)
        except BatchError as error:
            if error.degree is not None:
                raise new.rejected(error, batch) from None
            raise _key_error(table, after, error) from None
        found.rows += rows.num_rows
        progress(rows.num_rows)
    if fill is not None:
        found.unfilled, found.unused = found.rows - fill.used, fill.rows - fill.used
    return found


def _altered(rows: pa.RecordBatch, after: Relation, fill: Fill | None) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for column in after.columns:
        if column.name in rows.schema.names:
            columns[column.name] = convert(rows.column(column.name), column.type)
    if fill is not None:
        keys = {name: columns[name] for name in after.key}
        columns |= fill.columns(pa.RecordBatch.from_arrays([*keys.values()], names=[*keys]))
    for column in after.columns:
        columns.setdefault(column.name, pa.nulls(rows.num_rows, arrow_type(column.type)))
    schema = base_schema(after)
    arrays = [*(columns[c.name] for c in after.columns), rows.column(_COPIES)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([f.with_nullable(True) for f in schema]))


def _refuse_null(table: pa.Table, rows: pa.RecordBatch, before: Relation, after: Relation, fill: Fill | None) -> None:
    """RejectedError if a column that does not allow NULL has some."""
    for column in after.columns:
        many = table[column.name].null_count
        if column.nullable or not many:
            continue
        first = int(np.flatnonzero(table[column.name].combine_chunks().is_null().to_numpy(zero_copy_only=False))[0])
        shown = _shown(rows, before.key or tuple(c.name for c in before.columns), first)
        if before.column(column.name) is not None:
            what, hint = "is NULL", f"write {column.type}?, or change the rows first"
        elif fill is not None:
            what, hint = "has no value in the rows of --load", f"write {column.type}?, or load a value for every key"
        else:
            what = "would be NULL"
            hint = f"write {column.type}?, or give values by key: --load {after.name}=FILE"
        raise RejectedError(
            f"{column.place}: column {column.name} of {after.name} does not allow NULL, and {what}, as in the row with "
            f"{shown}\n  hint: {hint}"
        )


def _key_error(table: pa.Table, after: Relation, error: BatchError) -> RejectedError:
    key = f"[{', '.join(after.key)}]"
    shown = _shown(table, after.key, error.change)
    return RejectedError(
        f"{after.place}: the key {key} of {after.name} does not hold: several rows have {shown}\n"
        "  hint: take a key that tells the rows apart, or delete the others first"
    )


def _shown(rows: pa.RecordBatch | pa.Table, names: tuple[str, ...], row: int) -> str:
    values = (f"{name} = {rows.column(name)[row].as_py()!r}" for name in names[:_SHOWN])
    return ", ".join(values) + (", …" if len(names) > _SHOWN else "")


def past_degree(old: Views, relation: Relation) -> Iterator[tuple[str, str, int]]:
    """Yield the values of the rows of a relation that are in more of them than a `max_degree` allows, with column."""
    rows = pa.Table.from_batches(base_rows(old, relation.name), base_schema(old.base(relation.name).relation))
    for column in relation.columns:
        if column.name not in rows.column_names or relation.max_degree is None:
            continue
        many = rows.select([column.name, "_count"]).group_by(column.name).aggregate([("_count", "sum")])
        past = many.filter(pc.greater(many["_count_sum"], relation.max_degree)).filter(
            pc.is_valid(pc.field(column.name))
        )
        for row in past.slice(0, 1).to_pylist():
            yield column.name, spelled(row[column.name]), row["_count_sum"]
