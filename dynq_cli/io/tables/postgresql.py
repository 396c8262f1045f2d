"""A table in PostgreSQL that is kept equal to a result.

The stamp is a row of the table `dynq_mirrors` in the schema of the mirror, written in the transaction that changes the
rows. Triggers on the mirror note in that row who else changed it, and when; they cost dynq's own writes a test per row.
A run that finds a note, another table under the name, other columns, or no trigger writes nothing.

A change takes one lookup per delta row: with an index that PostgreSQL can use O(log n), else one scan of the table.
Readers are never blocked: they see the version before until the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.io.results.lines import pieces
from dynq_cli.io.results.texts import texts
from dynq_cli.io.tables.mirror import Stamp, TouchedError, Written, not_installed, place_of, value_columns
from dynq_cli.io.tables.mirror_sql import DELTA, Change, Looked, delta_schema, quoted, quoted_table, signed

if TYPE_CHECKING:
    import psycopg

_CONNECT_SECONDS, _LOCK_TIMEOUT = 20, "60s"
_OWN = "dynq.writing"
_TYPES = {
    "bool": "boolean",
    "int8": "smallint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "large_string": "text",
    "binary": "bytea",
    "large_binary": "bytea",
    "date32[day]": "date",
    "time64[us]": "time",
    "timestamp[us]": "timestamptz",
}
_TRIGGER = "dynq_mirror"


@contextmanager
def open_mirror(to: str, table: str) -> Iterator[PostgresMirror]:
    """Connect; roll back what is not committed at the end."""
    try:
        import psycopg
    except ImportError:
        raise not_installed("psycopg", "postgresql", f"a mirror in {place_of(to, table)}") from None
    place = place_of(to, table)
    try:
        with psycopg.connect(to, connect_timeout=_CONNECT_SECONDS, application_name="dynq") as connection:
            mirror = PostgresMirror(connection, table, place)
            mirror.begin()
            yield mirror
            connection.rollback()
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise DynqError(f"{place}: PostgreSQL says: {said}\n  hint: the next `dynq run` goes on from there") from error


class PostgresMirror:
    """See the module."""

    def __init__(self, connection: psycopg.Connection[Any], table: str, place: str) -> None:
        self._connection, self._place = connection, place
        self._table = quoted_table(table)
        schema, _, name = table.rpartition(".")
        self._name, before = name, f"{quoted(schema)}." if schema else ""
        self._stamps, self._touch = f"{before}dynq_mirrors", f"{before}dynq_mirror_touched"

    def begin(self) -> None:
        # One mirror of a schema is written at a time; what a transaction of another run creates is seen then.
        self._run("SELECT pg_advisory_xact_lock(hashtext('dynq mirrors'))")
        self._run(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        self._run("SET LOCAL timezone = 'UTC'")
        self._run(f"SET LOCAL {_OWN} = 'on'")

    def stamp(self) -> Stamp | None:
        there = self._oid()
        if there is None:
            return None
        if self._one("SELECT to_regclass(%s)", self._stamps)[0] is None:
            raise self._foreign()
        self._run(f"LOCK TABLE {self._table} IN SHARE ROW EXCLUSIVE MODE")
        found = self._row(
            f"SELECT stamp, columns, table_id, touched_by, touched_at FROM {self._stamps} WHERE mirror = %s", self._name
        )
        if found is None:
            raise self._foreign()
        stamp, columns, table_id, by, at = found
        if table_id != there:
            raise TouchedError.at(self._place, "another table has its name now")
        if at is not None:
            raise TouchedError.at(self._place, f"{by} changed it at {at:%Y-%m-%d %H:%M:%S} UTC")
        if self._triggers() != 2:
            raise TouchedError.at(self._place, "its triggers, which note who changes it, are gone or switched off")
        if self._columns() != json.loads(columns):
            raise TouchedError.at(self._place, "its columns are others now")
        return Stamp.of(stamp)

    def load(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        value_columns(schema)
        deleted = self._make(schema)
        rows = self._copy(self._table, schema, batches)
        self._commit(stamp)
        return Written(deleted, rows)

    def change(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        staged = delta_schema(schema)
        self._run(f"CREATE TEMPORARY TABLE {DELTA} ({_declared(staged)}) ON COMMIT DROP")
        self._copy(DELTA, staged, signed(schema, batches))
        self._run(f"ANALYZE {DELTA}")
        change = Change(self._table, schema, "ctid", _same, "ON COMMIT DROP")
        self._run(change.look_up())
        looked = Looked(*self._one(change.count()))
        if looked.complaint:
            raise TouchedError.at(self._place, looked.complaint)
        self._run(change.delete())
        self._run(change.insert())
        self._commit(stamp)
        return Written(looked.there, looked.coming)

    def _make(self, schema: pa.Schema) -> int:
        """Make the table and what notes changes of it, or empty it; return how many rows went."""
        deleted, declared = 0, _declared(schema)
        if self._oid() is not None:
            if self._columns() == [[f.name, _type(f), not f.nullable] for f in schema]:
                return self._run(f"DELETE FROM {self._table}")
            deleted = self._one(f"SELECT count(*) FROM {self._table}")[0]
            self._run(f"DROP TABLE {self._table}")
        self._run(
            f"CREATE TABLE IF NOT EXISTS {self._stamps} (mirror text PRIMARY KEY, stamp text NOT NULL,"
            " columns text NOT NULL, table_id bigint NOT NULL, touched_by text, touched_at timestamptz)"
        )
        self._run(f"CREATE TABLE {self._table} ({declared})")
        body = (
            f"BEGIN UPDATE {self._stamps} SET touched_by = session_user, touched_at = clock_timestamp()"
            " WHERE table_id = TG_RELID::bigint AND touched_at IS NULL; RETURN NULL; END"
        )
        self._run(
            f"CREATE OR REPLACE FUNCTION {self._touch}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER"
            f" SET search_path FROM CURRENT AS $body${body}$body$"
        )
        others = f"WHEN (current_setting('{_OWN}', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION {self._touch}()"
        self._run(
            f"CREATE TRIGGER {_TRIGGER}_rows AFTER INSERT OR UPDATE OR DELETE ON {self._table} FOR EACH ROW {others}"
        )
        self._run(f"CREATE TRIGGER {_TRIGGER}_all AFTER TRUNCATE ON {self._table} FOR EACH STATEMENT {others}")
        return int(deleted)

    def _commit(self, stamp: Stamp) -> None:
        self._run(
            f"INSERT INTO {self._stamps} (mirror, stamp, columns, table_id) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (mirror) DO UPDATE SET stamp = EXCLUDED.stamp, columns = EXCLUDED.columns,"
            " table_id = EXCLUDED.table_id, touched_by = NULL, touched_at = NULL",
            self._name,
            stamp.text(),
            json.dumps(self._columns()),
            self._oid(),
        )
        self._connection.commit()

    def _copy(self, table: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
        names, rows = ", ".join(map(quoted, schema.names)), 0
        with self._connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copying:
            for batch in batches:
                for piece in pieces(batch):
                    copying.write(memoryview(_copy_lines(piece)))
                rows += batch.num_rows
        return rows

    def _foreign(self) -> RejectedError:
        return RejectedError(
            f"{self._place}: the table is there already, and dynq did not make it; nothing was written to it\n"
            "  hint: mirror to another table, or drop it"
        )

    def _oid(self) -> int | None:
        oid = self._one("SELECT to_regclass(%s)::oid::bigint", self._table)[0]
        return None if oid is None else int(oid)

    def _columns(self) -> list[list[Any]]:
        """Of each column its name, its type, and whether it is NOT NULL."""
        found = self._connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (self._table,),
        )
        return [[name, _SHORT.get(kind, kind), is_set] for name, kind, is_set in found.fetchall()]

    def _triggers(self) -> int:
        """How many of the triggers that note changes are there and switched on."""
        return int(
            self._one(
                "SELECT count(*) FROM pg_trigger WHERE tgrelid = %s::regclass AND tgenabled IN ('O', 'A')"
                f" AND tgname IN ('{_TRIGGER}_rows', '{_TRIGGER}_all')",
                self._table,
            )[0]
        )

    def _run(self, sql: str, *values: Any) -> int:
        return self._connection.execute(sql, values or None).rowcount

    def _row(self, sql: str, *values: Any) -> Any:
        return self._connection.execute(sql, values or None).fetchone()

    def _one(self, sql: str, *values: Any) -> Any:
        row = self._row(sql, *values)
        assert row is not None
        return row


_SHORT = {"timestamp with time zone": "timestamptz", "time without time zone": "time"}


def _type(field: pa.Field) -> str:
    if pt.is_decimal(field.type):
        return f"numeric({field.type.precision},{field.type.scale})"
    found = _TYPES.get(str(field.type))
    if found is None:
        raise UsageError(f"column {field.name} has the type {field.type}, for which PostgreSQL has none")
    return found


def _declared(schema: pa.Schema) -> str:
    return ", ".join(f"{quoted(f.name)} {_type(f)}{'' if f.nullable else ' NOT NULL'}" for f in schema)


def _same(column: str, nullable: bool) -> str:
    """Equality for which PostgreSQL hashes: of arrays, NULL equals NULL."""
    return f"ARRAY[t.{column}] = ARRAY[d.{column}]" if nullable else f"t.{column} = d.{column}"


def _copy_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """Rows as COPY reads them: tabs between values, NULL as backslash N. O(bytes)."""
    columns = [_copy_texts(column) for column in batch.columns]
    parts = [part for column in columns for part in (column, "\t")]
    parts[-1] = "\n"
    # The texts of an array lie one behind the other in memory.
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="\\N").buffers()[2]


def _copy_texts(array: pa.Array) -> pa.Array:
    if pt.is_binary(array.type) or pt.is_large_binary(array.type):
        return pa.array([None if v is None else f"\\\\x{v.hex()}" for v in array.to_pylist()], pa.string())
    found = texts(array)
    if pt.is_string(array.type) or pt.is_large_string(array.type):
        for char, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            found = pc.replace_substring(found, char, written)
    return found
