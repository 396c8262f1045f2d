"""Sample the rows that a state would have after change logs, as tables of DuckDB.

    sample = Sample(duck, spec); sample.read(paths); sample.settle()
    sample.kept["orders"]     the share of the rows in the sample: 1.0 unless there are very many

A hash of the key, or of the whole row without a key, decides whether a row is in the sample: so all changes of a row
stay together. A table that becomes too large drops every second row. Of very large Parquet files, only the first part
is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.chunks import rows_in
from dynq_cli.io.logs.model import LogFile
from dynq_cli.io.logs.read import read_log
from dynq_cli.query.duck import Duck
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.values.change_kinds import INSERT, POSTIMAGE, UPSERT
from dynq_cli.values.convert import CodeError, arrow_type, convert

# Rows of a relation that are kept, and that are read; more are neither.
MOST_KEPT = 1_000_000
MOST_READ = 20_000_000
_GIVEN = "given rows"
_KIND, _NUMBER, _COPIES = '"a change"', '"a number"', '"its copies"'

_IS_THERE = f"{_KIND} IN ({INSERT}, {POSTIMAGE}, {UPSERT})"


class ColumnError(Exception):
    """A value that its column cannot take; `row` counts from 0."""

    def __init__(self, row: int, column: str, reason: str) -> None:
        super().__init__(f"row {row + 1}, column {column}: {reason}")
        self.row, self.column, self.reason = row, column, reason


@dataclass
class Read:
    """What was read of a relation: rows of a state and changes, and how many more there are in files that were not read
    to their end. `changes` are all those of the files; `replaces`: some take the place of a row that they do not say.
    """

    seen: int = 0
    missing: int = 0
    changes: int = 0
    keeps_one_of: int = 1
    only_inserts: bool = True
    replaces: bool = False

    @property
    def kept(self) -> float:
        """The share of the relation's rows that its table has."""
        return self.seen / max(self.seen + self.missing, 1) / self.keeps_one_of if self.seen else 1.0


class Sample:
    """A table per relation of a spec in a database of DuckDB's."""

    def __init__(self, duck: Duck, spec: Spec) -> None:
        self._duck = duck
        self._spec = spec
        self._added = 0
        self.read_of = {relation.name: Read() for relation in spec.relations}
        for relation in spec.relations:
            columns = ", ".join(f"{quote(c.name)} {c.type.sql}" for c in relation.columns)
            duck.run(
                f"CREATE TABLE {_changes(relation)} ({columns}, {_KIND} TINYINT, {_NUMBER} BIGINT, {_COPIES} BIGINT)"
            )

    @property
    def kept(self) -> dict[str, float]:
        """By relation, the share of its rows that its table has."""
        return {name: read.kept for name, read in self.read_of.items()}

    def read(self, files: Sequence[LogFile], progress: Callable[[int], None] = lambda rows: None) -> None:
        """Read change logs as `apply` would, without its checks. Errors of files as there."""
        sizes = [rows_in(file) for file in files]
        total = sum(size or 0 for size in sizes)
        share = min(1.0, MOST_READ / total) if total else 1.0
        for file, size in zip(files, sizes, strict=True):
            self._read_file(file, size, share, progress)

    def _read_file(self, file: LogFile, size: int | None, share: float, progress: Callable[[int], None]) -> None:
        """Read a file of so many rows, as far as they are known, or its first part."""
        done = 0
        changes: Counter[str] = Counter()
        for rows in read_log(file, self._spec).rows():
            try:
                self.add(rows.relation, rows.columns, rows.kinds, rows.counts)
            except ColumnError as error:
                number = int(rows.numbers[error.row])
                raise RejectedError.in_row(file.path, number, error.column, error.reason) from None
            changes[rows.relation] += len(rows)
            done = int(rows.numbers[-1])
            progress(len(rows))
            if size is not None and done >= share * size and share < 1:
                break
        for name, many in changes.items():
            # The rows that were not read are like those that were.
            missing = 0 if size is None else round(many * (size / done - 1)) if share < 1 else 0
            self.read_of[name].missing += missing
            self.read_of[name].changes += many + missing

    def add(
        self, relation: str, columns: Mapping[str, pa.Array], kinds: NDArray[np.int8], counts: NDArray[np.int64]
    ) -> None:
        """Changes of a relation, later ones after earlier ones; rows that it has are inserts. Raises ColumnError."""
        known = self._spec.relation(relation)
        assert known is not None
        read = self.read_of[relation]
        read.seen += len(kinds)
        read.replaces |= bool((kinds >= POSTIMAGE).any())
        read.only_inserts &= bool((kinds == INSERT).all())
        many = len(kinds)
        arrays = [_typed(columns, column, many) for column in known.columns]
        arrays += [
            pa.array(kinds.astype(np.int8)),
            pa.array(np.arange(self._added, self._added + many)),
            pa.array(counts),
        ]
        self._added += many
        names = [f"c{i}" for i in range(len(arrays))]
        table = pa.Table.from_arrays(arrays, names)
        with self._duck.seeing(_GIVEN, table):
            where = self._where(known, read.keeps_one_of, names[: len(known.columns)])
            self._duck.run(f"INSERT INTO {_changes(known)} SELECT {', '.join(names)} FROM {quote(_GIVEN)}{where}")
        while self._count(_changes(known)) > 2 * MOST_KEPT:
            read.keeps_one_of *= 2
            where = self._where(known, read.keeps_one_of, [quote(c.name) for c in known.columns])
            self._duck.run(f"CREATE OR REPLACE TABLE {_changes(known)} AS SELECT * FROM {_changes(known)}{where}")

    def settle(self) -> None:
        """Make the tables: of every key the row that it has in the end, of every other row one if it is left."""
        for relation in self._spec.relations:
            columns = ", ".join(quote(c.name) for c in relation.columns)
            source = _changes(relation)
            if relation.key:
                keys = ", ".join(map(quote, relation.key))
                last = f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {_NUMBER} DESC) = 1"
                sql = f"SELECT {columns} FROM (SELECT * FROM {source} {last}) WHERE {_IS_THERE}"
            elif self.read_of[relation.name].only_inserts:
                sql = f"SELECT DISTINCT {columns} FROM {source}"
            else:
                signed = f"SUM(CASE WHEN {_IS_THERE} THEN {_COPIES} ELSE -{_COPIES} END)"
                sql = f"SELECT {columns} FROM {source} GROUP BY ALL HAVING {signed} > 0"
            self._duck.run(f"CREATE TABLE {quote(relation.name)} AS {sql}")

    def values_of(self, relation: Relation, column: str) -> str:
        """SQL for the values that a column has, or has had: what a dictionary learns."""
        return f"SELECT {quote(column)} AS v FROM {_changes(relation)}"

    def _where(self, relation: Relation, one_of: int, columns: Sequence[str]) -> str:
        if one_of == 1:
            return ""
        by_name = dict(zip([c.name for c in relation.columns], columns, strict=True))
        by = [by_name[name] for name in relation.key] or list(columns)
        return f" WHERE hash({', '.join(by)}) % {one_of} = 0"

    def _count(self, table: str) -> int:
        ((many,),) = self._duck.rows(f"SELECT count(*) FROM {table}")
        return int(many)


def _changes(relation: Relation) -> str:
    # No relation has a space in its name.
    return quote(f"changes of {relation.name}")


def _typed(columns: Mapping[str, pa.Array], column: Column, many: int) -> pa.Array:
    """A column in the type of the spec; what a delete by key does not say is NULL."""
    kind = arrow_type(column.type)
    if column.name not in columns:
        return pa.nulls(many, kind)
    try:
        made = convert(columns[column.name], column.type)
        return made if made.type == kind else made.cast(kind)
    except CodeError as error:
        raise ColumnError(error.row, column.name, error.reason) from None
