"""Convert rows with change kinds to changes of a relation, with the same checks for every format.

- An inserted row needs every column of the relation. A deleted row needs the key, or, without a key, every column.
- In JSON lines an omitted key is NULL, so only columns that do not allow NULL can be missing, and columns that the file
  writes in other upper and lower case.
- With `upsert`, inserts and new images become upserts, and old images of updates are dropped.

Values get the types of the spec. NULLs in columns that do not allow them are checked when the rows are applied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dynq_cli.io.logs.columns import typed
from dynq_cli.io.logs.formats.log_format import SKIP, ChangeRows, Rows
from dynq_cli.io.logs.model import DELETE, ERASE, PREIMAGE, UPSERT, LogRows
from dynq_cli.spec.model import Column, Relation
from dynq_cli.spec.shown import shown, visible
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import CodeError, arrow_type, convert, nan_as_null

_SHOWN = 8
_UPSERT_HINT = "give it a `key:` in the spec, or leave out --upsert"


def log_rows(
    marked: ChangeRows, relation: Relation, commits: NDArray[np.int64] | None = None, *, upsert: bool = False
) -> LogRows:
    """Convert rows to changes, in order; `commits` are the numbers of their commits. O(rows)."""
    rows, kinds, counts, order = marked.rows, marked.kinds, marked.counts, marked.order
    if upsert:
        kinds = _upserted(rows, relation, kinds)
    kept = np.nonzero(kinds != SKIP)[0]
    if len(kept) < len(rows):
        rows, kinds = rows.pick(kept), kinds[kept]
        counts = None if counts is None else counts[kept]
        commits = None if commits is None else commits[kept]
        order = None if order is None else order[kept]
    copies = np.ones(len(rows), np.int64) if counts is None else counts
    if not len(rows):
        return LogRows(relation.name, {}, kinds, copies, commits, rows.numbers, order)
    _refuse_copied_upserts(rows, relation, kinds, copies)
    goes = (kinds == DELETE) | (kinds == PREIMAGE) | (kinds == ERASE)
    columns: dict[str, pa.Array] = {}
    for column in relation.columns:
        values = _values(marked, rows, relation, column, goes)
        if values is not None:
            columns[column.name] = values
    if marked.fillers and relation.key:
        columns = _without_fillers(columns, relation, goes)
    return LogRows(relation.name, columns, kinds, copies, commits, rows.numbers, order)


def _upserted(rows: Rows, relation: Relation, kinds: NDArray[np.int8]) -> NDArray[np.int8]:
    comes = (kinds != DELETE) & (kinds != PREIMAGE) & (kinds != SKIP) & (kinds != ERASE)
    if not relation.key and len(rows):
        raise rows.refused(f"--upsert needs a key to go by, and {relation.name} has none", _UPSERT_HINT)
    upserted = np.where(comes, UPSERT, kinds)
    return np.where(kinds == PREIMAGE, SKIP, upserted).astype(np.int8)


def _refuse_copied_upserts(rows: Rows, relation: Relation, kinds: NDArray[np.int8], counts: NDArray[np.int64]) -> None:
    wrong = (kinds == UPSERT) & (counts != 1)
    if wrong.any():
        row = int(wrong.argmax())
        message = f"{counts[row]} copies of a row that goes by its key"
        raise rows.rejected(row, "_count", message, f"a key of {relation.name} has one row: write 1")


def _values(
    marked: ChangeRows, rows: Rows, relation: Relation, column: Column, goes: NDArray[np.bool_]
) -> pa.Array | None:
    """Return the column's values; None if it is missing and no row needs it."""
    raw = rows.columns.get(column.name)
    if raw is None:
        needs = np.ones(len(rows), np.bool_) if column.name in relation.key or not relation.key else ~goes
        if not needs.any():
            return None
        # Under a name in other letters the values are there: taken as left out, they would be lost.
        if rows.is_json and column.nullable and not set(_alike(rows, column.name)) - rows.columns.keys():
            return pa.nulls(len(rows), arrow_type(column.type))
        raise rows.rejected(
            int(needs.argmax()), column.name, "the column is missing", _hint(rows, relation, column.name)
        )
    try:
        prepared = marked.prepare(column.name, raw, column.type)
        if not isinstance(prepared, list):
            prepared = nan_as_null(prepared, column.type, nullable=column.nullable)
        values = typed(prepared, column.type, is_text=rows.is_text)
    except CodeError as error:
        raise rows.rejected(error.row, column.name, error.reason) from None
    if column.name in relation.key and values.null_count:
        row = int(np.asarray(pc.is_null(values)).argmax())
        raise rows.rejected(row, column.name, f"NULL in the key of {relation.name}")
    return values


def _hint(rows: Rows, relation: Relation, name: str) -> str:
    alike = _alike(rows, name)
    if alike:
        return f"the file has {alike[0]}: names have to agree in upper and lower case too; {_mapped(name, alike[0])}"
    declared = {column.name for column in relation.columns}
    near = get_close_matches(name, sorted(rows.names - declared), n=1, cutoff=0.7)
    if near:
        return f"the file has {shown(near[0])}: if that is the column, {_mapped(name, near[0])}"
    if rows.is_text and not rows.names & declared:
        names = ", ".join([column.name for column in relation.columns][:_SHOWN])
        return f"the first line of a CSV has to name the columns, and this one names none of {names}"
    return "every column that the spec declares has to be there; leave it out of the spec if no query uses it"


def _alike(rows: Rows, name: str) -> list[str]:
    """The columns of the file that differ from a name in upper and lower case alone."""
    return sorted(other for other in rows.names if other != name and other.casefold() == name.casefold())


def _mapped(name: str, there: str) -> str:
    """How the spec reads a column under another name."""
    written = there if there.isidentifier() else json.dumps(visible(there), ensure_ascii=False)
    return f"`source: {{columns: {{{name}: {written}}}}}` in the spec reads it"


def _without_fillers(
    columns: Mapping[str, pa.Array], relation: Relation, goes: NDArray[np.bool_]
) -> dict[str, pa.Array]:
    """Set columns outside the key to NULL for deletes that have only NULL, zeros and empty texts there."""
    bare = goes.copy()
    others = {c.name: c.type for c in relation.columns if c.name in columns and c.name not in relation.key}
    for name, kind in others.items():
        if not bare.any():
            break
        bare &= _is_filler(columns[name], kind)
    if not bare.any() or not others:
        return dict(columns)
    kept = pa.array(~bare)
    return {
        name: pc.if_else(kept, convert(values, others[name]), None) if name in others else values
        for name, values in columns.items()
    }


def _is_filler(values: pa.Array, kind: Type) -> NDArray[np.bool_]:
    """Return which values are NULL, or the filler that a source writes if its column does not allow NULL."""
    plain = convert(values, kind)
    if kind.name in ("string", "binary"):
        empty = pc.equal(pc.binary_length(plain), 0)
    elif kind.is_temporal:
        empty = pc.equal(plain.view(pa.int32() if kind.name == "date" else pa.int64()), 0)
    elif kind.name == "bool":
        empty = pc.invert(plain)
    else:
        empty = pc.equal(plain, pa.scalar(Decimal(0) if kind.name == "decimal" else 0, plain.type))
    found: NDArray[np.bool_] = empty.fill_null(True).to_numpy(zero_copy_only=False)
    return found
