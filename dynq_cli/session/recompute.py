"""Recompute a query with DuckDB from the base tables, and compare it with the engine's result.

    compare(query): for every row, its multiplicity in the engine's enumeration and in DuckDB's result

DuckDB runs the user's own SQL text, or SQL made from the normal form of a rule. Rows are compared as in the engine:
NULL = NULL, NaN = NaN, -0.0 = 0.0. Float aggregates may differ in their last digits: the engine's sums are exact and
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from dynq_cli.engine.base_rows import base_rows, base_schema
from dynq_cli.engine.codes import Codes
from dynq_cli.engine.engine import BLOCK
from dynq_cli.engine.row_tests import RowTests
from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError
from dynq_cli.io.results.multiplicity import expand
from dynq_cli.phases import phase
from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.compile import compile_query, duckdb_text, reads_queries
from dynq_cli.query.duck import Duck, DuckError
from dynq_cli.query.normal_form import OutputColumn, Query, walk
from dynq_cli.query.scalar import from_duckdb, quote
from dynq_cli.spec.model import QuerySpec, Relation, Spec
from dynq_cli.spec.types import INT64, widen

SHOWN = 5
MOST_ROWS = 1 << 31
# Relative tolerance for floats, which DuckDB adds in another order.
TOLERANCE = 1e-9
# Names that no relation can have: the schema keeps them apart, and no relation's name has a space.
_KEPT, _COMPARED, _GIVEN = "beside.kept", "beside.compared", "given rows"
_FOUND, _TRIED = "beside.found", "beside.tried"
# A Boolean query has no columns, but a DuckDB table needs one.
_TRUE = OutputColumn("one", INT64, False, "expression", "1")


class Counted(NamedTuple):
    rows: int
    distinct: int


@dataclass(frozen=True)
class Differing:
    """Rows that differ, with their multiplicity in dynq's result and in the recomputed one."""

    rows: pa.Table
    kept: tuple[int, ...]
    recomputed: tuple[int, ...]


@dataclass(frozen=True)
class Compared:
    """The sizes of both results, and the first rows of which dynq's result has too many or too few copies."""

    kept: Counted
    recomputed: Counted
    too_many: Differing
    too_few: Differing


class Kept(Protocol):
    """What is compared: base rows and results, of one engine or of shards."""

    @property
    def spec(self) -> Spec: ...

    def base_rows(self, relation: str) -> Iterator[pa.RecordBatch]:
        """Every distinct row of a relation, with its copies in `_count`."""

    def kept_count(self, query: str) -> tuple[int, int] | None:
        """The rows and distinct rows, if they are kept."""

    def rows(self, query: str) -> Iterator[pa.RecordBatch] | None:
        """Every distinct row of a result; None if it is kept for tests alone."""

    def has_copies(self, query: str) -> bool:
        """Whether rows have copies."""

    def tests(self, query: str, rows: pa.RecordBatch) -> Codes:
        """The multiplicity of each row."""


@dataclass(frozen=True)
class KeptViews:
    """The base rows and results of one engine."""

    views: Views

    @property
    def spec(self) -> Spec:
        return self.views.spec

    def base_rows(self, relation: str) -> Iterator[pa.RecordBatch]:
        return base_rows(self.views, relation)

    def kept_count(self, query: str) -> tuple[int, int] | None:
        return self.views.kept_count(query)

    def rows(self, query: str) -> Iterator[pa.RecordBatch] | None:
        return None if query in self.views.engine.tested else self.views.enum(query)

    def has_copies(self, query: str) -> bool:
        return self.views.form_of(query).semantics == "bag"

    def tests(self, query: str, rows: pa.RecordBatch) -> Codes:
        return RowTests(self.views, query).copies(rows)


def load_base_tables(duck: Duck, views: Kept, progress: Callable[[int], None]) -> None:
    """Load every relation into a DuckDB table, one row per copy. O(block) memory, without DuckDB's."""
    duck.run("CREATE SCHEMA beside")
    for relation in views.spec.relations:
        columns = ", ".join(f"{quote(c.name)} {c.type.sql}" for c in relation.columns)
        duck.run(f"CREATE TABLE main.{quote(relation.name)} ({columns})")
        with phase(f"loading {relation.name} into DuckDB") as loading:
            for rows in expand(_bounded(views, relation), base_schema(relation)):
                _insert(duck, f"main.{quote(relation.name)}", rows)
                loading.add(rows.num_rows)
                progress(rows.num_rows)


def _bounded(views: Kept, relation: Relation) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a relation; DynqError if there are more than `MOST_ROWS`, counting copies."""
    total = 0.0
    for batch in views.base_rows(relation.name):
        total += batch["_count"].to_numpy().sum(dtype=np.float64)
        if total > MOST_ROWS:
            raise DynqError(
                f"{relation.name} has more than {MOST_ROWS:,} rows, counting copies, and DuckDB would have to load "
                "each copy; nothing was recomputed"
            )
        yield batch


def _insert(duck: Duck, table: str, rows: pa.RecordBatch) -> None:
    with duck.seeing(_GIVEN, pa.Table.from_batches([rows])):
        duck.run(f"INSERT INTO {table} SELECT * FROM {quote(_GIVEN)}")


def compare(duck: Duck, views: Kept, name: str, progress: Callable[[int], None]) -> Compared:
    """Compare both results of a query in a database with the base tables. DuckError if DuckDB cannot compute one."""
    written = views.spec.query(name)
    assert written is not None
    meant = compile_query(views.spec, written)
    columns = meant.columns or (_TRUE,)
    keys = [f"c{i}" for i in range(len(columns))]
    listed = ", ".join(keys)
    asked = f"(\n{_text(views.spec, written, meant)}\n) AS asked({listed})"
    kinds = _common_types(duck, asked, columns)
    cast = ", ".join(f"CAST({k} AS {kind}) AS {k}" for k, kind in zip(keys, kinds, strict=True))
    typed = ", ".join(f"{k} {c.type.sql}" for k, c in zip(keys, columns, strict=True))
    # OR REPLACE: the tables of a query that failed may still exist.
    duck.run(f"CREATE OR REPLACE TABLE {_KEPT} ({typed}, copies BIGINT)")
    kept_count = views.kept_count(name)
    with phase(f"reading {name}", total=None if kept_count is None else kept_count[1]) as reading:
        rows = views.rows(name)
        for batch in _tested(duck, views, name, asked, columns) if rows is None else rows:
            _insert(duck, _KEPT, _with_copies(batch, len(keys)))
            reading.add(batch.num_rows)
            progress(batch.num_rows)
    with phase(f"recomputing {name} with DuckDB"):
        duck.run(
            f"CREATE OR REPLACE TABLE {_COMPARED} AS "
            f"SELECT {listed}, sum(kept) AS kept, sum(recomputed) AS recomputed FROM ("
            f"SELECT {cast}, copies AS kept, 0 AS recomputed FROM {_KEPT} UNION ALL SELECT {cast}, 0, 1 FROM {asked}"
            f") GROUP BY {listed}"
        )
    # Count before grouping equal rows: a distinct row that is enumerated twice must show in the distinct count.
    kept = _counted(duck, f"SELECT sum(copies), count(*) FROM {_KEPT}")
    recomputed = _counted(duck, f"SELECT sum(recomputed), count(*) FROM {_COMPARED} WHERE recomputed > 0")
    if any(q.grouped for q in walk(meant)):
        _forgive(duck, {k: c.type.is_float for k, c in zip(keys, columns, strict=True)})
    found = Compared(
        kept,
        recomputed,
        _differing(duck, meant.columns, "kept > recomputed"),
        _differing(duck, meant.columns, "kept < recomputed"),
    )
    duck.run(f"DROP TABLE {_KEPT}; DROP TABLE {_COMPARED}")
    return found


def _tested(
    duck: Duck, views: Kept, name: str, asked: str, columns: tuple[OutputColumn, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a result which is kept for tests alone has, among DuckDB's and rows mixed from these."""
    names, bag = [] if columns == (_TRUE,) else [c.name for c in columns], views.has_copies(name)
    keys = [f"c{i}" for i in range(len(columns))]
    listed = ", ".join(keys)
    # A row mixed from others takes each column from a row further on.
    mixed = ", ".join(f"coalesce(lead({k}, {i}) OVER (ORDER BY number), {k})" for i, k in enumerate(keys))
    cast = ", ".join(f"CAST({k} AS {c.type.sql}) AS {k}" for k, c in zip(keys, columns, strict=True))
    duck.run(
        f"CREATE OR REPLACE TABLE {_FOUND} AS SELECT row_number() OVER () AS number, * FROM "
        f"(SELECT DISTINCT {cast} FROM {asked})"
    )
    duck.run(
        f"CREATE OR REPLACE TABLE {_TRIED} AS SELECT row_number() OVER () AS number, * FROM "
        f"(SELECT {listed} FROM {_FOUND} UNION SELECT {mixed} FROM {_FOUND})"
    )
    ((many,),) = duck.rows(f"SELECT count(*) FROM {_TRIED}")
    for start in range(0, many, BLOCK):
        found = duck.table(f"SELECT {listed} FROM {_TRIED} WHERE number > {start} AND number <= {start + BLOCK}")
        for batch in found.combine_chunks().to_batches():
            rows = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names)
            copies = views.tests(name, rows if names else batch)
            there = pa.array(copies > 0)
            columns_ = [column.filter(there) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(
                [*columns_, *([pa.array(copies).filter(there)] if bag else [])], [*keys, *(["_count"] if bag else [])]
            )
    duck.run(f"DROP TABLE {_FOUND}; DROP TABLE {_TRIED}")


def _forgive(duck: Duck, floats: Mapping[str, bool]) -> None:
    """Remove pairs of rows that differ only in the last digits of floats: DuckDB rounds at every step of a sum."""
    same = [
        f"(mine.{k} IS NOT DISTINCT FROM theirs.{k}"
        + (f" OR abs(mine.{k} - theirs.{k}) <= {TOLERANCE} * greatest(abs(mine.{k}), abs(theirs.{k})))" if f else ")")
        for k, f in floats.items()
    ]
    pairs = (
        f"SELECT mine.rowid AS mine, theirs.rowid AS theirs FROM {_COMPARED} AS mine, {_COMPARED} AS theirs "
        f"WHERE mine.kept > mine.recomputed AND theirs.kept < theirs.recomputed "
        f"AND mine.kept - mine.recomputed = theirs.recomputed - theirs.kept "
        f"AND {' AND '.join(same)} QUALIFY row_number() OVER (PARTITION BY mine.rowid) = 1 "
        f"AND row_number() OVER (PARTITION BY theirs.rowid) = 1"
    )
    duck.run(f"DELETE FROM {_COMPARED} WHERE rowid IN (SELECT unnest([mine, theirs]) FROM ({pairs}))")


def _text(spec: Spec, written: QuerySpec, meant: Query) -> str:
    """Return the SQL for DuckDB: the user's text if it has the semantics that the spec demands, else our own."""
    text = None if reads_queries(spec, written) else duckdb_text(written, spec)
    if text is None:
        return as_sql(meant)
    if meant.semantics == "set":
        return f"SELECT DISTINCT * FROM (\n{text}\n) AS written"
    # `semantics: bag` keeps the copies that a DISTINCT in the text would drop.
    is_bag = written.semantics is None or compile_query(spec, replace(written, semantics=None)).semantics == "bag"
    return text if is_bag else as_sql(meant)


def _common_types(duck: Duck, asked: str, columns: tuple[OutputColumn, ...]) -> list[str]:
    """Return a type per column that holds both DuckDB's values and dynq's without loss."""
    kinds = []
    for column, found in zip(columns, duck.types(f"SELECT * FROM {asked} LIMIT 0"), strict=True):
        theirs = from_duckdb(found)
        common = theirs and widen(theirs, column.type)
        if common is None:
            raise DuckError(f"column {column.name} is {found} there and {column.type} here")
        kinds.append(common.sql)
    return kinds


def _with_copies(batch: pa.RecordBatch, keys: int) -> pa.RecordBatch:
    """Append a column of copies to enumerated rows of sets; a row of a Boolean query becomes a 1."""
    columns = list(batch.columns)
    while len(columns) < keys + 1:
        columns.append(pa.array(np.ones(batch.num_rows, np.int64)))
    return pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])


def _counted(duck: Duck, sql: str) -> Counted:
    ((rows, distinct),) = duck.rows(sql)
    return Counted(int(rows or 0), distinct)


def _differing(duck: Duck, columns: tuple[OutputColumn, ...], side: str) -> Differing:
    found = duck.table(f"SELECT * FROM {_COMPARED} WHERE {side} ORDER BY ALL LIMIT {SHOWN}")
    rows = pa.Table.from_arrays(found.columns[: len(columns)], [c.name for c in columns])
    kept, recomputed = (tuple(map(int, found[side].to_pylist())) for side in ("kept", "recomputed"))
    return Differing(rows, kept, recomputed)
