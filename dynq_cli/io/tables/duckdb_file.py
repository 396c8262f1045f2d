"""A table in a DuckDB file that is kept equal to a result.

The stamp is a row of the table `dynq_mirrors` in the schema of the mirror, written in the transaction that changes the
rows. It has the number of rows and the sum of their hashes: a run that finds others writes nothing. DuckDB may hash in
another way in a later version; then the table is loaded anew.

A change scans the table a few times, at DuckDB's speed. One process at a time opens a DuckDB file to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from dynq_cli.atomic import make_directories
from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.io.tables.mirror import Stamp, TouchedError, Written, place_of, value_columns
from dynq_cli.io.tables.mirror_sql import DELTA, Change, Looked, delta_schema, quoted, quoted_table, signed
from dynq_cli.query.duck import Duck, DuckError

_START = "duckdb:///"
_ROWS = "dynq_rows"


def path_of(to: str) -> Path:
    """The file of a mirror.

    >>> str(path_of("duckdb:///out/shop.duckdb")), str(path_of("duckdb:////srv/shop.duckdb"))
    ('out/shop.duckdb', '/srv/shop.duckdb')
    """
    return Path(to.removeprefix(_START))


@contextmanager
def open_mirror(to: str, table: str) -> Iterator[DuckMirror]:
    """Open the file, which is made where there is none; roll back what is not committed at the end."""
    path, place = path_of(to), place_of(to, table)
    try:
        make_directories(path.resolve().parent)
        with Duck(file=str(path)) as duck:
            duck.run("BEGIN")
            yield DuckMirror(duck, table, place)
    except (DuckError, OSError) as error:
        raise DynqError(f"{place}: DuckDB says: {error}\n  hint: the next `dynq run` goes on from there") from error


class DuckMirror:
    """See the module."""

    def __init__(self, duck: Duck, table: str, place: str) -> None:
        self._duck, self._place = duck, place
        self._table = quoted_table(table)
        schema, _, name = table.rpartition(".")
        self._schema, self._name = schema or "main", name
        self._stamps = f"{quoted(self._schema)}.dynq_mirrors"

    def stamp(self) -> Stamp | None:
        if not self._is_there(self._name):
            return None
        found = []
        if self._is_there("dynq_mirrors"):
            found = self._duck.rows(
                f"SELECT stamp, columns, facts, duckdb FROM {self._stamps} WHERE mirror = {_text(self._name)}"
            )
        if not found:
            raise RejectedError(
                f"{self._place}: the table is there already, and dynq did not make it; nothing was written to it\n"
                "  hint: mirror to another table, or drop it"
            )
        stamp, columns, facts, version = found[0]
        if self._columns() != columns:
            raise TouchedError.at(self._place, "its columns are others now")
        if version != self._version():
            return Stamp("", "", -1, 0)  # hashes say nothing: to be loaded anew
        if self._facts() != facts:
            rows, before = self._facts().split(" ")[0], facts.split(" ")[0]
            what = f"it has {rows} rows where {before} were written" if rows != before else "its rows are others now"
            raise TouchedError.at(self._place, what)
        return Stamp.of(stamp)

    def load(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        self._refuse_row_ids(schema)
        deleted = 0
        if self._is_there(self._name):
            deleted = self._duck.rows(f"SELECT count(*) FROM {self._table}")[0][0]
            self._duck.run(f"DROP TABLE {self._table}")
        kinds = self._duck_types(schema)
        declared = (
            f"{quoted(f.name)} {kind}{'' if f.nullable else ' NOT NULL'}" for f, kind in zip(schema, kinds, strict=True)
        )
        self._duck.run(f"CREATE SCHEMA IF NOT EXISTS {quoted(self._schema)}")
        self._duck.run(f"CREATE TABLE {self._table} ({', '.join(declared)})")
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        with self._duck.seeing(_ROWS, reader):
            self._duck.run(f"INSERT INTO {self._table} SELECT * FROM {_ROWS}")
        return Written(deleted, self._commit(stamp))

    def change(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        self._refuse_row_ids(schema)
        reader = pa.RecordBatchReader.from_batches(delta_schema(schema), signed(schema, batches))
        with self._duck.seeing(_ROWS, reader):
            self._duck.run(f"CREATE TEMPORARY TABLE {DELTA} AS SELECT * FROM {_ROWS}")
        change = Change(self._table, schema, "rowid", _same)
        self._duck.run(change.look_up())
        looked = Looked(*self._duck.rows(change.count())[0])
        if looked.complaint:
            raise TouchedError.at(self._place, looked.complaint)
        self._duck.run(change.delete())
        self._duck.run(change.insert())
        self._commit(stamp)
        return Written(looked.there, looked.coming)

    def _refuse_row_ids(self, schema: pa.Schema) -> None:
        """UsageError if a column hides the `rowid` by which rows are deleted."""
        for name in value_columns(schema):
            if name.lower() == "rowid":
                raise UsageError(
                    f"{self._place}: DuckDB finds the rows of a table by `rowid`, so no column can have that name; "
                    "nothing was written\n  hint: name the column otherwise in the query, with AS"
                )

    def _commit(self, stamp: Stamp) -> int:
        """Write the stamp and commit; return how many rows the table has."""
        facts = self._facts()
        self._duck.run(
            f"CREATE TABLE IF NOT EXISTS {self._stamps} (mirror VARCHAR, stamp VARCHAR, columns VARCHAR,"
            " facts VARCHAR, duckdb VARCHAR)"
        )
        self._duck.run(f"DELETE FROM {self._stamps} WHERE mirror = {_text(self._name)}")
        values = (self._name, stamp.text(), self._columns(), facts, self._version())
        self._duck.run(f"INSERT INTO {self._stamps} VALUES ({', '.join(map(_text, values))})")
        self._duck.run("COMMIT")
        return int(facts.split(" ")[0])

    def _is_there(self, name: str) -> bool:
        return bool(
            self._duck.rows(
                "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database()"
                f" AND schema_name = {_text(self._schema)} AND table_name = {_text(name)}"
            )
        )

    def _columns(self) -> str:
        """Name, type and NOT NULL of each column, as a text."""
        return repr(self._described())

    def _described(self) -> list[tuple[Any, ...]]:
        return self._duck.rows(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE database_name = current_database()"
            f" AND schema_name = {_text(self._schema)} AND table_name = {_text(self._name)} ORDER BY column_index"
        )

    def _facts(self) -> str:
        """The number of rows, and the sum of their hashes."""
        # Not of the row as one value: rows with a NULL would all have one hash.
        names = ", ".join(quoted(name) for name, _, _ in self._described())
        (row,) = self._duck.rows(f"SELECT count(*), COALESCE(sum(hash({names})::HUGEINT), 0) FROM {self._table}")
        return f"{row[0]} {row[1]}"

    def _version(self) -> str:
        return str(self._duck.rows("SELECT version()")[0][0])

    def _duck_types(self, schema: pa.Schema) -> list[str]:
        with self._duck.seeing(_ROWS, schema.empty_table()):
            return self._duck.types(f"SELECT * FROM {_ROWS}")


def _text(value: str) -> str:
    """A text in SQL.

    >>> _text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def _same(column: str, nullable: bool) -> str:
    return f"t.{column} IS NOT DISTINCT FROM d.{column}" if nullable else f"t.{column} = d.{column}"
