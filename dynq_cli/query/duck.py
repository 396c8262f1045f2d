"""DuckDB, and the only module that touches it: databases in memory that reach nothing but what they are given.

A `Duck` has no access to files, extensions or the network, and none of it can be switched on again by what it
runs. Data comes in and goes out as Arrow. With a directory to spill to, tables and results may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_CLOSED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",
}


class DuckError(Exception):
    """What DuckDB says against a statement, in one line."""


class Duck:
    """One database in memory, on all cores unless `threads` says how many. `spill` takes what is more than `memory`,
    by default most of the machine's."""

    def __init__(self, *, threads: int | None = None, spill: str | None = None, memory: str | None = None) -> None:
        import duckdb

        settings: dict[str, str | bool | int | float | list[str]] = {**_CLOSED}
        if threads is not None:
            settings["threads"] = threads
        if spill is not None:
            # The order of rows means nothing here, and keeping it takes memory.
            settings |= {"temp_directory": spill, "preserve_insertion_order": "false"}
        if memory is not None:
            settings["memory_limit"] = memory
        self._connection = duckdb.connect(":memory:", config=settings)

    def __enter__(self) -> Duck:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def types(self, sql: str) -> list[str]:
        """The types of a SELECT's columns, as DuckDB names them; it is bound, not run."""
        with _said():
            return [str(kind) for kind in self._connection.sql(sql).types]

    def run(self, sql: str) -> None:
        """Run a statement for what it does."""
        with _said():
            self._connection.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT as Python values."""
        with _said():
            return self._connection.execute(sql).fetchall()

    def table(self, sql: str) -> pa.Table:
        """The rows of a SELECT, in their order."""
        with _said():
            return self._connection.sql(sql).to_arrow_table()

    @contextmanager
    def seeing(self, name: str, data: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        """Inside, `name` is a view of Arrow data; a reader's rows can be read once, as a stream."""
        self._connection.register(name, data)
        try:
            yield
        finally:
            self._connection.unregister(name)


@lru_cache(maxsize=1)
def shared() -> Duck:
    """The database for small questions, on one thread; made when it is first asked for."""
    return Duck(threads=1)


@contextmanager
def _said() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise DuckError(str(error).split("\n")[0]) from error
