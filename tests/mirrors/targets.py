"""Where mirrors are: how a spec names a table there, what it holds, and how somebody else changes it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import duckdb
import psycopg
from deltalake import DeltaTable

Rows = Counter[tuple[Any, ...]]


def comparable(rows: Iterable[Iterable[Any]]) -> Rows:
    """Rows as a multiset in which NaN equals NaN, and times have no zone."""
    return Counter(tuple(_value(value) for value in row) for row in rows)


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return f"float {value!r}"
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


class Target(Protocol):
    has_times: bool

    def output(self, table: str) -> str:
        """The keys of an output that keeps this table."""
        ...

    def rows(self, table: str) -> Rows: ...

    def columns(self, table: str) -> list[str]: ...

    def tamper(self, table: str, how: str) -> None:
        """Change a table with columns x and s, as others do: `insert`, `update` or `delete`."""
        ...

    def drop(self, table: str) -> None: ...

    def make(self, table: str) -> None:
        """Make a table that no state keeps."""
        ...


_SQL = {
    "insert": "INSERT INTO {t} (x, s, _count) VALUES (77, 'new', 1)",
    "update": "UPDATE {t} SET s = 'other' WHERE x = (SELECT min(x) FROM {t})",
    "delete": "DELETE FROM {t} WHERE x = (SELECT min(x) FROM {t})",
}


@dataclass
class PostgresTarget:
    url: str
    has_times: bool = True

    def output(self, table: str) -> str:
        return f'to: "{self.url}", table: {table}'

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, options="-c timezone=UTC") as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def rows(self, table: str) -> Rows:
        return comparable(self.run(f"SELECT * FROM {table}"))

    def columns(self, table: str) -> list[str]:
        found = self.run(
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 ORDER BY attnum"
        )
        return [name for (name,) in found]

    def tamper(self, table: str, how: str) -> None:
        self.run(_SQL[how].format(t=table))

    def drop(self, table: str) -> None:
        self.run(f"DROP TABLE {table}")

    def make(self, table: str) -> None:
        self.run(f"CREATE TABLE {table} (x bigint, s text, _count bigint)")


@dataclass
class DuckTarget:
    file: Path
    has_times: bool = True

    def output(self, table: str) -> str:
        return f'to: "duckdb:///{self.file}", table: {table}'

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.file)) as connection:
            return connection.execute(sql).fetchall()

    def rows(self, table: str) -> Rows:
        return comparable(self.run(f"SELECT * FROM {table}"))

    def columns(self, table: str) -> list[str]:
        return [row[0] for row in self.run(f"DESCRIBE {table}")]

    def tamper(self, table: str, how: str) -> None:
        self.run(_SQL[how].format(t=table))

    def drop(self, table: str) -> None:
        self.run(f"DROP TABLE {table}")

    def make(self, table: str) -> None:
        self.run(f"CREATE TABLE {table} (x bigint, s text, _count bigint)")


@dataclass
class DeltaTarget:
    folder: Path
    has_times: bool = False

    def output(self, table: str) -> str:
        return f'to: "delta:{self.folder / table}"'

    def _table(self, table: str) -> DeltaTable:
        return DeltaTable(self.folder / table)

    def rows(self, table: str) -> Rows:
        return comparable(row.values() for row in self._table(table).to_pyarrow_table().to_pylist())

    def columns(self, table: str) -> list[str]:
        return [field.name for field in self._table(table).schema().fields]

    def tamper(self, table: str, how: str) -> None:
        import pyarrow as pa
        from deltalake import write_deltalake

        held = self._table(table)
        least = min(row["x"] for row in held.to_pyarrow_table().to_pylist())
        if how == "insert":
            write_deltalake(held, pa.table({"x": [77], "s": ["new"], "_count": [1]}), mode="append")
        elif how == "update":
            held.update({"s": "'other'"}, predicate=f"x = {least}")
        else:
            held.delete(f"x = {least}")

    def drop(self, table: str) -> None:
        shutil.rmtree(self.folder / table)

    def make(self, table: str) -> None:
        DeltaTable.create(self.folder / table, _schema())


def _schema() -> Any:
    from deltalake import Schema

    return Schema.from_json(
        '{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{}},'
        '{"name":"s","type":"string","nullable":true,"metadata":{}},'
        '{"name":"_count","type":"long","nullable":true,"metadata":{}}]}'
    )
