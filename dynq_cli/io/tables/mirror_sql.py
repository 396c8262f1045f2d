"""Change a table by a delta in SQL: the statements that PostgreSQL and DuckDB share.

    delta     the values of a row, and in DELTA_COPIES how many copies came, negative if they went
    found     the delta joined with the table: where the row is, and how many copies there are afterwards
    table     − rows of `found` that are there, + those that have copies afterwards

Each delta row is looked up once, by all of its values, where NULL equals NULL and NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.io.tables.mirror import COPIES, KIND, is_bag, value_columns

DELTA, FOUND = "dynq_delta", "dynq_found"
# Names that no column of a result has, because they hold a space.
DELTA_COPIES, AFTERWARDS, ROW_ID = "dynq delta", "dynq copies", "dynq row"


def quoted(name: str) -> str:
    """A name in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def quoted_table(table: str) -> str:
    """A table in SQL, with its schema where it has one.

    >>> quoted_table("sales.orders")
    '"sales"."orders"'
    """
    return ".".join(map(quoted, table.split(".")))


def delta_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a staged delta: values, then copies."""
    fields = [schema.field(name) for name in value_columns(schema)]
    return pa.schema([*fields, pa.field(DELTA_COPIES, pa.int64(), False)])


def signed(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield a delta as it is staged."""
    staged = delta_schema(schema)
    for batch in batches:
        kinds = batch.column(schema.names.index(KIND))
        copies = batch.column(len(schema) - 1) if is_bag(schema) else pa.repeat(pa.scalar(1, pa.int64()), len(batch))
        change = pc.if_else(pc.equal(kinds, "insert"), copies, pc.negate(copies))
        values = [batch.column(i) for i, name in enumerate(schema.names) if name in staged.names]
        yield pa.RecordBatch.from_arrays([*values, change], schema=staged)


@dataclass(frozen=True)
class Looked:
    """What the lookup of a delta found."""

    staged: int
    found: int
    there: int
    coming: int
    missing: int
    wrong: int

    @property
    def complaint(self) -> str:
        """Why the delta does not fit the table; empty if it does."""
        if self.missing:
            return f"{self.missing:,} rows of it are gone"
        if self.found != self.staged:
            return "rows of it are there twice"
        return f"{self.wrong:,} rows of it have other copies" if self.wrong else ""


@dataclass(frozen=True)
class Change:
    """The statements that change a table by the delta that is staged."""

    table: str
    schema: pa.Schema
    row_id: str
    same: Callable[[str, bool], str]
    temporary: str = ""

    @property
    def columns(self) -> Sequence[str]:
        return value_columns(self.schema)

    def look_up(self) -> str:
        """Join the delta with the table."""
        same = " AND ".join(self.same(quoted(n), self.schema.field(n).nullable) for n in self.columns)
        before = f"t.{quoted(COPIES)}" if is_bag(self.schema) else "1"
        there = f"CASE WHEN t.{self.row_id} IS NULL THEN 0 ELSE {before} END"
        return (
            f"CREATE TEMPORARY TABLE {FOUND} {self.temporary} AS SELECT d.*, t.{self.row_id} AS {quoted(ROW_ID)},"
            f" {there} + d.{quoted(DELTA_COPIES)} AS {quoted(AFTERWARDS)}"
            f" FROM {DELTA} d LEFT JOIN {self.table} t ON {same}"
        )

    def count(self) -> str:
        """Select the fields of `Looked`."""
        row, copies, after = quoted(ROW_ID), quoted(DELTA_COPIES), quoted(AFTERWARDS)
        most = "" if is_bag(self.schema) else f" OR {after} > 1"
        return (
            f"SELECT (SELECT count(*) FROM {DELTA}), count(*), count({row}), count(*) FILTER (WHERE {after} > 0),"
            f" count(*) FILTER (WHERE {row} IS NULL AND {copies} < 0), count(*) FILTER (WHERE {after} < 0{most})"
            f" FROM {FOUND}"
        )

    def delete(self) -> str:
        return f"DELETE FROM {self.table} USING {FOUND} d WHERE {self.table}.{self.row_id} = d.{quoted(ROW_ID)}"

    def insert(self) -> str:
        names = [quoted(n) for n in self.columns]
        into = ", ".join([*names, quoted(COPIES)] if is_bag(self.schema) else names)
        values = ", ".join([*names, quoted(AFTERWARDS)] if is_bag(self.schema) else names)
        return f"INSERT INTO {self.table} ({into}) SELECT {values} FROM {FOUND} WHERE {quoted(AFTERWARDS)} > 0"
