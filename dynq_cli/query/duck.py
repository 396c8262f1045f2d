"""DuckDB, and the only module that touches it: databases in memory that reach nothing but what they are given.

A `Duck` has no access to files, extensions or the network, and none of it can be switched on again by what it
runs. Data comes in and goes out as Arrow. A database may be kept in a file. With a directory to spill to, tables and
results may be larger than memory.
"""

from __future__ import annotations

import atexit
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_CLOSED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",
    # What several expressions share would be computed before all of them, outside of a TRY around it too.
    "disabled_optimizers": "common_subexpressions",
}
# Statements that are kept planned at a time.
MOST_STANDING = 256
# DuckDB warns of a copy of the result, which takes less than planning the statement again.
_COPIED = "Arrow output on a DB-API result"


class DuckError(Exception):
    """What DuckDB says against a statement, in one line."""


class Duck:
    """One database in memory, on all cores unless `threads` says how many. `spill` takes what is more than `memory`,
    by default most of the machine's. With `file`, a database in that file, which one process at a time may open."""

    def __init__(
        self,
        *,
        threads: int | None = None,
        spill: str | None = None,
        memory: str | None = None,
        file: str = ":memory:",
    ) -> None:
        import duckdb

        settings: dict[str, str | bool | int | float | list[str]] = {**_CLOSED}
        if threads is not None:
            settings["threads"] = threads
        if spill is not None:
            # The order of rows means nothing here, and keeping it takes memory.
            settings |= {"temp_directory": spill, "preserve_insertion_order": "false"}
        if memory is not None:
            settings["memory_limit"] = memory
        with _said():
            self._connection = duckdb.connect(file, config=settings)
        self._standing: OrderedDict[tuple[pa.Schema, tuple[str, ...]], _Standing] = OrderedDict()
        self._made = 0

    def __enter__(self) -> Duck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything."""
        while self._standing:
            self._standing.popitem()[1].close()
        self._connection.close()

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Inside, a statement that takes longer is stopped: a DuckError."""
        timer = threading.Timer(seconds, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

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

    def values(self, data: pa.Table, expressions: tuple[str, ...]) -> pa.Table:
        """A column per expression over Arrow data, a row per row, in order.

        The statement is planned when data of this schema first meets these expressions: that takes as long as
        evaluating them for some ten thousand rows.
        """
        with _said():
            return self._stands(data.schema, expressions).values(data)

    def flags(self, data: pa.Table, conditions: tuple[str, ...]) -> list[NDArray[np.bool_]]:
        """For each condition, row by row, whether it is true; as `values`, and quicker, since no table is made."""
        with _said():
            return self._stands(data.schema, tuple(f"COALESCE({c}, FALSE)" for c in conditions)).flags(data)

    def _stands(self, schema: pa.Schema, expressions: tuple[str, ...]) -> _Standing:
        key = (schema, expressions)
        standing = self._standing.get(key)
        if standing is None:
            self._made += 1
            standing = _Standing(self._connection, f"standing_{self._made}", *key)
            self._standing[key] = standing
            if len(self._standing) > MOST_STANDING:
                self._standing.popitem(last=False)[1].close()
        self._standing.move_to_end(key)
        return standing

    @contextmanager
    def seeing(self, name: str, data: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        """Inside, `name` is a view of Arrow data; a reader's rows can be read once, as a stream."""
        self._connection.register(name, data)
        try:
            yield
        finally:
            self._connection.unregister(name)


class _Given:
    """Arrow data that DuckDB reads under one name, other data at every run of a statement."""

    def __init__(self, schema: pa.Schema) -> None:
        self.empty = schema.empty_table()
        self.data = self.empty

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


class _Standing:
    """Expressions over Arrow data of one schema, planned. Data is let go of after each run."""

    def __init__(self, connection: Any, name: str, schema: pa.Schema, expressions: tuple[str, ...]) -> None:
        self._connection = connection
        self._name = name
        self._used = [n for n in schema.names if any(_quoted(n) in sql for sql in expressions)] or schema.names[:1]
        self._given = _Given(schema.empty_table().select(self._used).schema)
        shown = ", ".join(f"({sql}) AS c{i}" for i, sql in enumerate(expressions))
        connection.register(name, self._given)
        try:
            connection.execute(f"PREPARE {name} AS SELECT {shown} FROM {name}")
        except Exception:
            connection.unregister(name)
            raise

    def values(self, data: pa.Table) -> pa.Table:
        _let_copy()
        with self._run(data) as result:
            return result.to_arrow_table()

    def flags(self, data: pa.Table) -> list[NDArray[np.bool_]]:
        with self._run(data) as result:
            return list(result.fetchnumpy().values())

    @contextmanager
    def _run(self, data: pa.Table) -> Iterator[Any]:
        self._given.data = data.select(self._used)
        try:
            yield self._connection.execute(f"EXECUTE {self._name}")
        finally:
            self._given.data = self._given.empty

    def close(self) -> None:
        self._connection.execute(f"DEALLOCATE {self._name}")
        self._connection.unregister(self._name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _let_copy() -> None:
    """Ask not to be warned of copies. For good: filters are the whole process's, and putting them back in one thread
    would take them from another."""
    if not any(known is not None and known.match(_COPIED) for _, known, *_ in warnings.filters):
        warnings.filterwarnings("ignore", message=_COPIED)


_of_thread = threading.local()
_small: WeakSet[Duck] = WeakSet()


def shared() -> Duck:
    """The database for small questions, on one thread; made when a thread first asks for it, and gone with the thread.

    Threads have one each: a connection runs one statement at a time, and its result is lost with the next.
    """
    duck: Duck | None = getattr(_of_thread, "duck", None)
    if duck is None:
        duck = _of_thread.duck = Duck(threads=1)
        _small.add(duck)
    return duck


@atexit.register
def _close_small() -> None:
    # What is registered with a database keeps it: at the end of the process it would be reported as leaked.
    for duck in list(_small):
        duck.close()


@contextmanager
def _said() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise DuckError(str(error).split("\n")[0]) from error
