"""Why a row is in a result: the base rows that make it; and why not: the atoms that keep it out.

    why(state, {"order_id": 1}, "orders_of")        a table: _derivation, _atom, _relation, row
    why_not(state, {"order_id": 7}, "orders_of")    the same columns, and _reason

A *derivation* is one way in which the row comes about: a row of each atom of the query. Of a group these are all rows
that were aggregated, of a union those of each member; a row of a subquery stands for the base rows that make it. `row`
is the base row as JSON, as results are written.

The base tables are loaded into DuckDB, which finds the bindings by the query's normal form: O(base rows), nothing is
kept for it. Bindings are of rows without their copies; views and groups are made of all copies, which they count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from dynq_cli.engine.base_rows import base_rows, base_schema
from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.results.lines import json_lines
from dynq_cli.phases import phase
from dynq_cli.query.as_sql import view_sql
from dynq_cli.query.compile import compile_query
from dynq_cli.query.duck import Duck, DuckError
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, Query, UnionQuery, View, walk
from dynq_cli.query.scalar import quote
from dynq_cli.query.why_sql import GIVEN, GROUPS, bindings_sql, exists_sql, groups_sql, joined_atoms, refusing_sql
from dynq_cli.storage.state import State

LIMIT = 100
MOST_ROWS = 1 << 31
SCHEMA = pa.schema(
    [("_derivation", pa.int64()), ("_atom", pa.string()), ("_relation", pa.string()), ("row", pa.string())]
)
SCHEMA_NOT = SCHEMA.append(pa.field("_reason", pa.string()))
_LOADED = "loaded rows"
_ROW = "row by number"
_COPIES = "_count"


class Used(NamedTuple):
    """A base row of a derivation: the atom that it matches, its relation, and the row as JSON."""

    atom: str
    relation: str
    row: str


class Kept(NamedTuple):
    """An atom that keeps a row out: with the values that no row of it has, or the row of it that forbids the row."""

    atom: str
    relation: str
    row: str
    reason: str


def why(
    state: State,
    row: Mapping[str, Any],
    query: str | None = None,
    at: str | int | None = None,
    limit: int = LIMIT,
    offset: int = 0,
) -> pa.Table:
    """Return the base rows of at most `limit` derivations of a row, those after the first `offset` of them.

    Derivations of a version have an order. RejectedError if the row is not in the result.
    """
    parts = state.parts(query, at)
    having = [(views, name) for views, name in parts if views.test(name, row)]
    if not having:
        name = parts[0][1]
        raise RejectedError(f"the row is not in the result of {name}\n  hint: --not says which atoms keep it out")
    derivations: list[Any] = []
    for views, name in having:
        if len(derivations) < offset + limit:
            with _Found(views, name) as found:
                asked = offset + limit - len(derivations)
                derivations += found.derivations(found.query, _table(views, name, row), asked)
    listed = enumerate(derivations[offset:], start=offset + 1)
    return _listed([(n, *used) for n, several in listed for used in several], SCHEMA)


def why_not(
    state: State, row: Mapping[str, Any], query: str | None = None, at: str | int | None = None, limit: int = LIMIT
) -> pa.Table:
    """Return the atoms that keep a row out. RejectedError if it is in the result."""
    views, name = _views(state, query, at)
    if views.test(name, row):
        raise RejectedError(f"the row is in the result of {name}\n  hint: without --not, its base rows are listed")
    with _Found(views, name) as found:
        given = _table(views, name, row)
        return _listed([(0, *kept) for kept in found.keeping_out(found.query, given, limit)], SCHEMA_NOT)


def _listed(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def _views(state: State, query: str | None, at: str | int | None) -> tuple[Views, str]:
    if at is not None and state.version_of(at) != state.version:
        views = state.views_at(at)
        return views, state.named_at(views, query, at)
    return state.reading(query)


def _table(views: Views, query: str, row: Mapping[str, Any]) -> pa.Table:
    columns = [c for c in views.schema(query) if c.name in row]
    if not columns:
        return pa.table({_ROW: [1]})  # DuckDB has no table without columns
    return pa.Table.from_arrays([pa.array([row[c.name]], c.type) for c in columns], [c.name for c in columns])


class _Found:
    """The base tables of a query in DuckDB, with numbered rows; each row once, beside the number of its copies."""

    def __init__(self, views: Views, name: str) -> None:
        written = views.spec.query(name)
        assert written is not None
        self.query = compile_query(views.spec, written)
        self._views, self._name = views, name
        self._duck = Duck()
        # Also those of queries around: a view reads the views before it.
        self._made: dict[str, View] = {}
        self._tables: dict[str, int] = {}  # and how many rows it has more when copies are counted

    def __enter__(self) -> _Found:
        used = {atom.source for part in walk(self.query) for atom in part.atoms}
        for relation in self._views.spec.relations:
            if relation.name not in used:
                continue
            if any(c.name.lower() == "rowid" for c in relation.columns):
                raise RejectedError(f"{relation.name} has a column rowid, so its rows cannot be numbered")
            schema = base_schema(relation)
            with phase(f"loading {relation.name} into DuckDB"):
                rows = pa.RecordBatchReader.from_batches(schema, base_rows(self._views, relation.name))
                with self._duck.seeing(_LOADED, rows):
                    columns = ", ".join(
                        f"CAST({quote(c.name)} AS {c.type.sql}) AS {quote(c.name)}" for c in relation.columns
                    )
                    self._load(relation.name, f"SELECT {columns}, {quote(_COPIES)} FROM {quote(_LOADED)}")
        return self

    def __exit__(self, *_: object) -> None:
        self._duck.close()

    def _load(self, name: str, sql: str) -> None:
        """Keep rows beside the numbers of their copies."""
        self._duck.run(f"CREATE OR REPLACE TABLE memory.main.{quote(name)} AS {sql}")
        ((more,),) = self._rows(f"SELECT COALESCE(sum({quote(_COPIES)} - 1), 0) FROM memory.main.{quote(name)}")
        self._tables[name] = int(more)

    @contextmanager
    def _copied(self, query: Query) -> Iterator[None]:
        """Inside, the tables that a query and its views read have each row as often as it has copies."""
        read = {atom.source for part in walk(query) for atom in part.atoms}
        several = [name for name, more in self._tables.items() if more and name in read]
        for name in several:
            if self._tables[name] > MOST_ROWS:
                message = f"{name} has more than {MOST_ROWS:,} rows, counting copies"
                raise DynqError(f"{message}, and DuckDB would have to make each; no derivation was looked for")
            copies = f'SELECT *, unnest(range({quote(_COPIES)})) AS "_copy" FROM memory.main.{quote(name)}'
            without = f'SELECT * EXCLUDE ({quote(_COPIES)}, "_copy") FROM ({copies})'
            self._duck.run(f"CREATE TEMP VIEW {quote(name)} AS {without}")
        try:
            yield
        finally:
            for name in several:
                self._duck.run(f"DROP VIEW temp.{quote(name)}")

    def derivations(self, query: Query, given: pa.Table, limit: int) -> list[list[Used]]:
        """Return at most `limit` derivations of a row."""
        if isinstance(query, UnionQuery):
            found: list[list[Used]] = []
            for member in query.members:
                found += self.derivations(member, _renamed(given, query, member), limit - len(found))
            return found
        if limit <= 0:
            return []
        self._make_views(query)
        with self._duck.seeing(GIVEN, given):
            groups = groups_sql(query, given.column_names)
            if groups:
                with self._copied(query):
                    self._duck.run(f"CREATE OR REPLACE TABLE {quote(GROUPS)} AS {groups}")
            bindings = self._rows(bindings_sql(query, given.column_names, limit))
        atoms = [query.atoms[i] for i in joined_atoms(query)]
        return [
            [used for atom, row in zip(atoms, binding, strict=False) for used in self._used(atom, row, limit)]
            for binding in bindings
        ]

    def keeping_out(self, query: Query, given: pa.Table, limit: int) -> list[Kept]:
        """Return what keeps a row out of a query."""
        if isinstance(query, UnionQuery):
            return [k for m in query.members for k in self.keeping_out(m, _renamed(given, query, m), limit)]
        self._make_views(query)
        with self._duck.seeing(GIVEN, given):
            return list(self._reasons(query, given, limit))

    def _reasons(self, query: ConjunctiveQuery, given: pa.Table, limit: int) -> Iterator[Kept]:
        names, atoms = given.column_names, joined_atoms(query)

        def exists(several: list[int]) -> bool:
            return bool(self._rows(exists_sql(query, names, several)))

        alone = [i for i in atoms if not exists([i])]
        for i in alone:
            yield self._kept(query, i, given, "no row of it has these values")
        if alone:
            return
        if not exists(atoms):
            needed = [i for i in atoms if exists([j for j in atoms if j != i])]
            for i in needed:
                yield self._kept(query, i, given, "no row of it fits the rows of the others")
            if not needed:
                stop = next(n for n in range(2, len(atoms) + 1) if not exists(atoms[:n]))
                others = ", ".join(query.atoms[i].alias for i in atoms[: stop - 1])
                yield self._kept(query, atoms[stop - 1], given, f"no row of it fits rows of {others}")
            return
        refused = False
        for i, atom in enumerate(query.atoms):
            if atom.mode == "anti":
                for (row,) in self._rows(refusing_sql(query, names, i, limit)):
                    refused = True
                    for used in self._used(atom, row, limit):
                        yield Kept(*used, "this row forbids it")
        if not refused:
            what = "its groups have other values, or HAVING leaves them out" if query.grouped else "its columns differ"
            yield Kept(query.name, "", "{}", f"there are rows for it, but {what}")

    def _kept(self, query: ConjunctiveQuery, index: int, given: pa.Table, reason: str) -> Kept:
        """Name an atom, with the values of its columns that the row asked for says."""
        atom = query.atoms[index]
        asked = {}
        for column in query.columns:
            binding = atom.binding(column.source) if column.kind == "variable" else None
            if binding is not None and column.name in given.column_names:
                name = binding.scalar.columns[0] if len(binding.scalar.columns) == 1 else binding.scalar.sql
                asked[name] = given[column.name]
        shown = _json(pa.table(asked)) if asked else "{}"
        return Kept(atom.alias, atom.source, shown, reason)

    def _used(self, atom: Atom, row: int, limit: int) -> Iterator[Used]:
        """Yield the base rows behind a row of an atom."""
        values = self._duck.table(f"SELECT * FROM {quote(atom.source)} WHERE rowid = {int(row)}")
        view = self._made.get(atom.source)
        if view is None:
            yield Used(atom.alias, atom.source, _json(values.drop_columns([_COPIES])))
            return
        # A window function is computed from other rows, too: these are the ones behind the row itself.
        values = values.select([c.name for c in view.query.columns])
        for several in self.derivations(view.query, values, limit):
            for used in several:
                yield Used(f"{atom.alias}.{used.atom}", used.relation, used.row)

    def _make_views(self, query: ConjunctiveQuery) -> None:
        for view in query.views:
            with self._copied(view.query):
                self._load(
                    view.name,
                    f"SELECT *, COUNT(*) AS {quote(_COPIES)} FROM ({view_sql(view)}) GROUP BY ALL ORDER BY ALL",
                )
            self._made[view.name] = view

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self._duck.rows(sql)
        except DuckError as error:
            raise DynqError(f"DuckDB cannot find the rows behind {self._name}: {error}") from None


def _renamed(given: pa.Table, query: UnionQuery, member: Query) -> pa.Table:
    """The row with the column names of a member of a union."""
    names = {c.name: m.name for c, m in zip(query.columns, member.columns, strict=True)}
    return given.rename_columns([names.get(name, name) for name in given.column_names])


def _json(rows: pa.Table) -> str:
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([{}])]
    return str(json_lines(batch).to_pybytes(), "utf-8").strip()
