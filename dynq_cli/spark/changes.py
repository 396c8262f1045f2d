"""`extract changes`: write the change feed of a catalog's table (`spark.read.changes`) as a change log.

    extract_changes(spark, job)   the changes of the table after `start`, up to and including `stop`, commit by commit

The feed has the columns of change logs; dynq adds the types of the spec, the order, and a batch id. Commits are ordered
by `_commit_version`. If a catalog's versions do not increase (Iceberg's snapshot ids), order by time:
`_commit_version` is then `_commit_timestamp` in microseconds, and bounds are times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.spark.columns import BAD, all_columns, misfits, raw, reasons_against, row_as_json, typed_value, value
from dynq_cli.spark.errors import explained
from dynq_cli.spark.rejects import as_lines, rejection
from dynq_cli.spark.session import settings
from dynq_cli.spark.snapshot_diff_checked import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE, PREIMAGE
from dynq_cli.spark.write import Batch, Done, Target, in_order
from dynq_cli.spec.model import Relation

VERSION, TIME = "_commit_version", "_commit_timestamp"
_META = (CHANGE_TYPE, VERSION, TIME)
_KINDS = (INSERT, DELETE, PREIMAGE, POSTIMAGE)
_NO_FEED = "UNSUPPORTED_FEATURE.CHANGE_DATA_CAPTURE"
_COMMIT, _IMAGE, _REASON, _ROW, _WHAT = "@commit", "@image", "@reason", "@row", "@what"


@dataclass(frozen=True)
class ChangesJob:
    """The options of a job: extract the changes of a table after `start`, up to and including `stop`.

    Bounds are versions, or times with `by_time`. The defaults are the beginning and the last commit.
    """

    table: str
    out: str
    relation: Relation
    start: str | None = None
    stop: str | None = None
    by_time: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    reject_to: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Passed(Done):
    """The result of a job; `batch` is None if the table did not change."""

    written: bool
    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    bad: int = 0

    def line(self) -> str:
        """Describe the result in one line."""
        if self.batch is None:
            return f"{self.out}: nothing happened to the table, nothing was written"
        if not self.written:
            return f"{self.out}: extracted before, nothing was done"
        changes = f"{self.inserted:,} inserted, {self.replaced:,} replaced, {self.deleted:,} deleted"
        aside = f", {self.bad:,} bad and set aside" if self.bad else ""
        return f"{self.out}: {self.batch.relation}, rows: {changes}{aside}; up to {self.batch.stop}"


def extract_changes(spark: SparkSession, job: ChangesJob) -> Passed:
    """Extract the changes of a table from its catalog.

    UsageError if the catalog has no change feed; RejectedError for invalid columns and rows. Then nothing is written.
    """
    with settings(spark):
        return pass_on(spark, job, _feed(spark, job))


def _feed(spark: SparkSession, job: ChangesJob) -> DataFrame:
    unit = "Timestamp" if job.by_time else "Version"
    given = dict(job.options)
    if job.start is not None:
        given |= {f"starting{unit}": job.start, "startingBoundInclusive": "false"}
    if job.stop is not None:
        given |= {f"ending{unit}": job.stop}
    reader = spark.read.options(**given)
    if not hasattr(reader, "changes"):
        raise UsageError(
            "this Spark cannot read change feeds, which need Spark 4.2 or newer\n  hint: pip install -U pyspark"
        )
    try:
        return reader.changes(job.table)
    except PySparkException as error:
        if not (error.getCondition() or "").startswith(_NO_FEED):
            with explained(job.table):
                raise
        raise UsageError(
            f"{job.table}: its catalog has no change feed\n"
            "  hint: use a catalog of Delta or Iceberg that has one, or dynq extract snapshot with two snapshots"
        ) from error


def pass_on(spark: SparkSession, job: ChangesJob, feed: DataFrame) -> Passed:
    """Write a feed, a frame with `_change_type`, `_commit_version`, `_commit_timestamp` and the table's columns."""
    target = Target(spark, job.out)
    rejects = Target(spark, job.reject_to) if job.reject_to else None
    relation = _described(job, feed)
    found = _judged(job, feed, relation).persist()
    try:
        with explained(job.table):
            return _write(job, relation, found, target, rejects)
    finally:
        found.unpersist()


def _write(job: ChangesJob, relation: Relation, found: DataFrame, target: Target, rejects: Target | None) -> Passed:
    facts = found.groupBy(_WHAT).agg(f.count("*").alias("rows"), f.max(_COMMIT).alias("last"))
    counted = {row[_WHAT]: row for row in facts.collect()}
    if not counted:
        return Passed(job.out, None, False)
    counts = {what: row["rows"] for what, row in counted.items()}
    _refuse_disorder(job, found)
    batch = _batch(job, relation, max(row["last"] for row in counted.values()))
    if target.holds(batch):
        return Passed(job.out, batch, False)
    bad = counts.get(BAD, 0)
    if bad:
        told = found.filter(f.col(_WHAT) == BAD).select(
            f.lit("feed").alias("snapshot"), f.col(_REASON).alias("reason"), f.col(_ROW).alias("row"),
            f.lit(1).alias("copies"),
        )  # fmt: skip
        if rejects is None:
            raise rejection(relation.name, told, bad, {"feed": job.table})
        if rejects.is_there():
            raise UsageError(f"--reject-to {job.reject_to}: it is there already; name another directory")
        rejects.write_texts(as_lines(told))
    keys = [value(i) for i, c in enumerate(relation.columns) if c.name in relation.key or not relation.key]
    good = found.filter(f.col(_WHAT) != BAD)
    ordered = in_order(good, sum(counts.values()), [_COMMIT, *keys, _IMAGE])
    values = [f.col(value(i)).alias(c.name) for i, c in enumerate(relation.columns)]
    log = ordered.select(CHANGE_TYPE, f.col(_COMMIT).alias(VERSION), *values)
    target.write_in_order({relation.name: log}, batch)
    return Passed(
        job.out,
        batch,
        True,
        inserted=counts.get(INSERT, 0),
        replaced=counts.get(POSTIMAGE, 0),
        deleted=counts.get(DELETE, 0),
        bad=bad,
    )


def _described(job: ChangesJob, feed: DataFrame) -> Relation:
    """Return the relation; without a spec, with the columns of the feed. RejectedError for columns that do not fit."""
    absent = [name for name in _META if name not in feed.columns]
    if absent:
        raise RejectedError(f"{job.table}: its change feed has no column {absent[0]}")
    columns = job.relation.columns or all_columns(job.table, feed, _META)
    said = misfits(feed, columns, ())
    if said:
        raise RejectedError(
            "\n".join(f"{job.table}: {problem}" for problem in said)
            + "\n  hint: mend the table or the spec; no row was read"
        )
    return Relation(job.relation.name, columns, job.relation.key)


def _judged(job: ChangesJob, feed: DataFrame, relation: Relation) -> DataFrame:
    """Convert the rows to the types of the spec, each with its commit and its change type, or marked as bad."""
    fields = {column.name: column.dataType for column in feed.schema.fields}
    change = f.lower(f.col(CHANGE_TYPE))
    commit = f.unix_micros(f.col(TIME)) if job.by_time else f.col(VERSION).try_cast("bigint")
    values: list[Column] = []
    reasons = [
        f.when(~f.coalesce(change.isin(*_KINDS), f.lit(False)), f.lit(f"column {CHANGE_TYPE}: no kind of change")),
        f.when(commit.isNull(), f.lit(f"column {TIME if job.by_time else VERSION}: no whole number or time")),
    ]
    for column in relation.columns:
        made, wrong = typed_value(column.name, fields[column.name], column.type, is_text=False)
        values.append(made)
        reasons += reasons_against(column, made, wrong, in_key=column.name in relation.key)
    judged = feed.select(
        change.alias(CHANGE_TYPE),
        commit.alias(_COMMIT),
        f.col(TIME).alias(TIME),
        f.when(change.isin(DELETE, PREIMAGE), 0).otherwise(1).alias(_IMAGE),
        *(made.alias(value(i)) for i, made in enumerate(values)),
        f.coalesce(*reasons).alias(_REASON),
        row_as_json({c.name: raw(c.name) for c in relation.columns}).alias(_ROW),
    )
    return judged.withColumn(_WHAT, f.when(f.col(_REASON).isNotNull(), f.lit(BAD)).otherwise(f.col(CHANGE_TYPE)))


def _refuse_disorder(job: ChangesJob, found: DataFrame) -> None:
    """RejectedError if versions do not increase with time, so that they do not give the order of commits."""
    if job.by_time:
        return
    commits = found.groupBy(_COMMIT).agg(f.min(TIME).alias("at")).orderBy(_COMMIT).collect()
    times = [row["at"] for row in commits if row["at"] is not None]
    if times != sorted(times):
        raise RejectedError(
            f"{job.table}: its versions do not increase from one commit to the next\n"
            "  hint: order commits by their time with --by-time, as Iceberg's snapshots require"
        )


def _batch(job: ChangesJob, relation: Relation, last: int) -> Batch:
    reached = str(last)
    return Batch(
        source=job.source or f"changes:{job.table}",
        start=job.start or "",
        stop=job.stop or (_moment(last) if job.by_time else reached),
        relation=relation.name,
        columns=tuple(c.name for c in relation.columns),
        key=relation.key,
    )


def _moment(micros: int) -> str:
    """Format a time in UTC.

    >>> _moment(1)
    '1970-01-01T00:00:00.000001+00:00'
    """
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()
