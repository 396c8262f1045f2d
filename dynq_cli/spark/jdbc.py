"""`extract jdbc`: extract the rows of a database table that changed since the last run, by an increasing column.

    extract_jdbc(spark, job)   all outputs, applied in order, give a state with the current rows of the table

The watermark is the largest value of the column so far (`progress`). Rows at the watermark are read again, and with an
overlap also rows somewhat below it, since a transaction may commit later than one that began after it. With a key this
is harmless, because rows are upserts. Without a key, a row read twice would be stored twice. So each row is read once,
and a count checks that: rows must only ever be added to the table.

A deleted row cannot be read. That needs a flag in the table, or `extract snapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.spark.columns import BAD, all_columns, misfits, raw
from dynq_cli.spark.database import Database, java_in_utc
from dynq_cli.spark.errors import explained
from dynq_cli.spark.files import Files
from dynq_cli.spark.progress import Progress, ProgressFile
from dynq_cli.spark.rejects import as_lines, rejection
from dynq_cli.spark.session import settings
from dynq_cli.spark.types import from_spark
from dynq_cli.spark.upserts import GONE, THERE, Upserts, upserts
from dynq_cli.spark.watermark import as_text, kind_of
from dynq_cli.spark.write import Batch, Done, Target
from dynq_cli.spec.model import Relation

_AMISS = "dynq_amiss"
_TOP = "dynq_top"
_NULL, _FUTURE = "null", "future"


@dataclass(frozen=True)
class JdbcJob:
    """The options of a job: a table, or `(SELECT …) name`, of a database.

    `relation` has the columns to extract and their types; if it has none, all columns are extracted. The default of
    `key` is the relation's key. `append_only` promises that rows are only ever added; then no key is needed.
    """

    url: str
    table: str
    out: str
    relation: Relation
    watermark: str
    key: tuple[str, ...] | None = None
    deleted_flag: str | None = None
    overlap: str | None = None
    append_only: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    reject_to: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Pulled(Done):
    """The result of a job. `written` is false if the output existed already or no row was read; see `reason`."""

    batch: Batch
    written: bool
    reason: str = ""
    watermark: str | None = None
    inserted_or_replaced: int = 0
    deleted: int = 0
    bad: int = 0

    def line(self) -> str:
        """Describe the result in one line."""
        if not self.written:
            return f"{self.out}: {self.reason}"
        counts = [f"{self.inserted_or_replaced:,} inserted or replaced", f"{self.deleted:,} deleted"]
        counts += [f"{self.bad:,} bad and set aside"] if self.bad else []
        return f"{self.out}: {self.batch.relation}, rows: {', '.join(counts)}; up to {self.watermark}"


def extract_jdbc(spark: SparkSession, job: JdbcJob) -> Pulled:
    """Extract the rows of a table that changed since the last extraction.

    UsageError for contradictory options. RejectedError for bad columns and bad rows, and for a table without a key that
    changed other than by added rows. Then nothing is written. Rows are read once, by the database's index on the
    watermark if there is one.
    """
    database = Database(job.url, job.options)
    with settings(spark), java_in_utc(spark), database.without_secrets():
        return _Extraction(spark, job, database).run()


class _Extraction:
    """Runs one job."""

    def __init__(self, spark: SparkSession, job: JdbcJob, database: Database) -> None:
        self._spark, self._job, self._database = spark, job, database
        self._key = job.relation.key if job.key is None else job.key
        self._check_key()
        self._target = Target(spark, job.out)
        self._rejects = Target(spark, job.reject_to) if job.reject_to else None
        with explained(job.table):
            self._table = database.read(spark, job.table)
        declared = job.relation.columns
        self._columns = declared or all_columns(job.table, self._table, ())
        self._fields = {column.name: column.dataType for column in self._table.schema.fields}
        self._check_columns()
        self._kind = kind_of(job.watermark, self._fields[job.watermark])
        if job.overlap is not None:
            self._kind.check(job.overlap)
        self._source = job.source or f"jdbc:{job.relation.name}"
        self._progress = ProgressFile(Files(spark), self._target.path, self._source, self._of())

    def run(self) -> Pulled:
        start = self._progress.start
        if self._target.is_of(self._source):
            return self._not_written(start, "extracted before, nothing was done")
        if self._rejects is not None and self._rejects.is_there():
            raise UsageError(f"--reject-to {self._job.reject_to}: it is there already; name another directory")
        with explained(self._job.table):
            if not self._key:
                self._check_only_added(start)
            limit = self._kind.newest()
            top = self._top(start, limit)
            found = upserts(self._rows(start, top, limit), self._columns, self._key, self._is_gone(), self._amiss())
            try:
                return self._finish(found, start, top)
            finally:
                found.close()

    def _finish(self, found: Upserts, start: Progress, top: str | None) -> Pulled:
        counts, bad = found.counts, found.counts.get(BAD, 0)
        if bad and self._rejects is None:
            raise rejection(self._job.relation.name, found.bad(), bad, {"table": self._job.table})
        if not counts or top is None:
            return self._not_written(start, f"no rows of {self._job.table} are new, nothing was written")
        if bad and self._rejects is not None:
            self._rejects.write_texts(as_lines(found.bad()))
        # Without a key: the final number of rows up to the watermark.
        then = Progress(start.number + 1, top, 0 if self._key else start.rows + found.within())
        batch, target = self._batch(start, then), self._target
        target.write(
            found.changes(), found.rows(), found.order(), batch, lambda: self._progress.announce(target.path, then)
        )
        self._progress.reach(then)
        return Pulled(self._job.out, batch, True, "", top, counts.get(THERE, 0), counts.get(GONE, 0), bad)

    def _not_written(self, start: Progress, reason: str) -> Pulled:
        return Pulled(self._job.out, self._batch(start, start), False, reason, start.watermark)

    def _top(self, start: Progress, limit: str | None) -> str | None:
        """Return the new watermark. Rows are read up to it, however often Spark reads them."""
        column, kind = self._quoted(self._job.watermark), self._kind
        newest = "" if limit is None else f" WHERE {column} <= {kind.literal(limit)}"
        query = f"(SELECT max({column}) AS {_TOP} FROM {self._job.table}{newest}) dynq_tops"
        (row,) = self._database.read(self._spark, query).selectExpr(f"{as_text(kind, _TOP)} AS {_TOP}").collect()
        if row[_TOP] is None or start.watermark is None:
            return row[_TOP] or start.watermark
        # If the newest rows were deleted, the largest value has decreased.
        return kind.largest(start.watermark, row[_TOP])

    def _rows(self, start: Progress, top: str | None, limit: str | None) -> DataFrame:
        """Return the rows between the watermarks, and rows that no watermark can reach, with the reason."""
        column, kind = self._quoted(self._job.watermark), self._kind
        amiss = {f"{column} IS NULL": _NULL}
        if limit is not None:
            amiss[f"{column} > {kind.literal(limit)}"] = _FUTURE
        wanted = [f"({condition})" for condition in amiss]
        if top is not None:
            bounds = [f"{column} <= {kind.literal(top)}"]
            if start.watermark is not None:
                low = kind.back(start.watermark, self._job.overlap)
                bounds.append(f"{column} {'>=' if self._key else '>'} {kind.literal(low)}")
            wanted.append(f"({' AND '.join(bounds)})")
        flags = [self._job.deleted_flag] if self._job.deleted_flag else []
        names = dict.fromkeys([*(c.name for c in self._columns), *flags])
        cases = " ".join(f"WHEN {condition} THEN '{what}'" for condition, what in amiss.items())
        query = (
            f"(SELECT {', '.join(map(self._quoted, names))}, CASE {cases} END AS {_AMISS}"
            f" FROM {self._job.table} WHERE {' OR '.join(wanted)}) dynq_rows"
        )
        return self._database.read(self._spark, query)

    def _amiss(self) -> Column:
        said = f"column {self._job.watermark}"
        return f.when(raw(_AMISS) == _NULL, f.lit(f"{said}: NULL in the watermark")).when(
            raw(_AMISS) == _FUTURE, f.lit(f"{said}: the watermark lies in the future")
        )

    def _is_gone(self) -> Column:
        flag = self._job.deleted_flag
        if flag is None:
            return f.lit(False)
        kind = self._fields[flag]
        if isinstance(kind, t.BooleanType):
            return f.coalesce(raw(flag), f.lit(False))
        if isinstance(kind, (t.TimestampType, t.TimestampNTZType, t.DateType)):
            return raw(flag).isNotNull()
        return f.coalesce(raw(flag) != 0, f.lit(False))

    def _check_key(self) -> None:
        job = self._job
        name = job.relation.name
        if job.key is not None and job.relation.columns and set(job.key) != set(job.relation.key):
            raise UsageError(f"--key: rows replace each other by the key of {name} in the spec, which is another one")
        if self._key and job.append_only:
            raise UsageError(f"--append-only: {name} has a key, which does without it; leave it out")
        if self._key:
            return
        for option, given in (("--overlap", job.overlap), ("--deleted-flag", job.deleted_flag)):
            if given is not None:
                raise UsageError(
                    f"{option}: {name} has no key, so a row that is read again would be there twice, and none can go\n"
                    f"  hint: give {name} a `key:` in the spec, or use dynq extract snapshot"
                )
        if not job.append_only:
            raise UsageError(
                f"{name} has no key to tell a changed row from a new one\n"
                f"  hint: give it a `key:` in the spec; if rows are only ever added to {job.table}, say --append-only"
            )

    def _check_columns(self) -> None:
        """Check the columns before any row is read."""
        job, names = self._job, {c.name for c in self._columns}
        for name in self._key:
            if name not in names:
                raise UsageError(f"--key {name}: {job.relation.name} has no such column")
        for option, wanted in (("--watermark", job.watermark), ("--deleted-flag", job.deleted_flag)):
            if wanted is not None and wanted not in self._fields:
                there = ", ".join(self._fields)
                raise UsageError(f"{option} {wanted}: {job.table} has no such column; it has {there}")
        if job.deleted_flag is not None and not _is_flag(self._fields[job.deleted_flag]):
            kind = self._fields[job.deleted_flag].simpleString()
            raise RejectedError(
                f"--deleted-flag {job.deleted_flag} is {kind}; it has to be a boolean, a whole number, or a time"
            )
        said = misfits(self._table, self._columns, ())
        if said:
            raise RejectedError(
                "\n".join(f"{job.table}: {problem}" for problem in said)
                + "\n  hint: mend the table or the spec; no row was read"
            )

    def _check_only_added(self, start: Progress) -> None:
        """RejectedError unless the table has as many rows up to the watermark as were extracted, without a key."""
        if start.watermark is None:
            return
        column, table = self._quoted(self._job.watermark), self._job.table
        query = (
            f"(SELECT count(*) AS {_TOP} FROM {table} WHERE {column} <= {self._kind.literal(start.watermark)}) dynq_old"
        )
        (row,) = self._database.read(self._spark, query).collect()
        if int(row[_TOP]) != start.rows:
            raise RejectedError(
                f"{table} has {int(row[_TOP]):,} rows up to the watermark {start.watermark}, and {start.rows:,} were"
                " extracted: rows came late, changed or went, which cannot be made up for without a key\n"
                f"  hint: give {self._job.relation.name} a `key:` and begin anew, or use dynq extract snapshot"
            )

    def _of(self) -> dict[str, Any]:
        """Identify the source of the watermark. With other columns, rows below it would miss their values."""
        job = self._job
        return {
            "database": self._database.address,
            "table": job.table,
            "watermark column": job.watermark,
            "deleted flag": job.deleted_flag,
            "relation": job.relation.name,
            "columns": [f"{c.name}: {c.type}{'?' if c.nullable else ''}" for c in self._columns],
            "key": list(self._key),
        }

    def _batch(self, start: Progress, then: Progress) -> Batch:
        names = tuple(c.name for c in self._columns)
        return Batch(self._source, start.name, then.name, self._job.relation.name, names, self._key)

    def _quoted(self, name: str) -> str:
        return self._database.quoted(self._spark, name)


def _is_flag(kind: t.DataType) -> bool:
    if isinstance(kind, (t.BooleanType, t.TimestampType, t.TimestampNTZType, t.DateType)):
        return True
    mine = from_spark(kind)
    return mine is not None and (mine.is_integer or mine.name == "decimal")
