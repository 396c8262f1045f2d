"""`extract debezium`: files of Debezium's events, of many tables at once, as one change log.

    extract_debezium(spark, job)   every event below the path once, in the order of its database's log

A table that the spec does not have is passed over. A truncation is refused: which rows went is not in the log. Events
that cannot be taken reject the job with examples, or are set aside. The batch goes from the first position to the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.spark.columns import BAD
from dynq_cli.spark.debezium.events import EVENTS, TRUNCATE, Tables, describe
from dynq_cli.spark.debezium.images import Schemaless, changes_schema, translate
from dynq_cli.spark.debezium.positions import TIME
from dynq_cli.spark.errors import explained
from dynq_cli.spark.rejects import as_lines, rejection
from dynq_cli.spark.session import settings
from dynq_cli.spark.snapshot_diff_checked import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE
from dynq_cli.spark.write import Batch, Done, Target, in_order
from dynq_cli.spec.model import Relation
from dynq_cli.spec.types import Type

_TRUNCATION_HINT = "delete its rows one by one, or make a new state from a snapshot"


@dataclass(frozen=True)
class DebeziumJob:
    """What is to be extracted. `path` is a file, a directory or a pattern of JSON lines.

    `tables` has relations by the names of their tables, where those differ; with `only`, all events are of that
    relation. Events at `after` or before it are left out. The batch starts after `start`, if that is given.
    """

    path: str
    out: str
    relations: tuple[Relation, ...]
    only: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    rules: Schemaless = field(default_factory=Schemaless)
    after: int | None = None
    start: int | None = None
    reject_to: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class EventsExtracted(Done):
    """The result of a job; `batch` is None if there was no event; `written` is false if the output existed already.

    `skipped` has the tables that are no relations, and how many events each had.
    """

    written: bool
    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    bad: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    by_time: bool = False

    def line(self) -> str:
        """Describe the result in one line."""
        aside = f", {self.bad:,} bad events set aside" if self.bad else ""
        if self.batch is None:
            return f"{self.out}: there are no events to extract, nothing was written{aside}"
        if not self.written:
            return f"{self.out}: extracted before, nothing was done"
        changes = f"{self.inserted:,} inserted, {self.replaced:,} replaced, {self.deleted:,} deleted"
        named = self.batch.relation.replace(",", ", ")
        return f"{self.out}: {named}, rows: {changes}{aside}; from {self.batch.start} to {self.batch.stop}"


def extract_debezium(spark: SparkSession, job: DebeziumJob) -> EventsExtracted:
    """Extract the events below a path.

    UsageError for what is not there or does not go together; RejectedError for bad events. Nothing is written then.
    """
    with settings(spark), ExitStack() as kept:
        return _Extraction(spark, job, kept).run()


class _Extraction:
    """A job at work."""

    def __init__(self, spark: SparkSession, job: DebeziumJob, kept: ExitStack) -> None:
        self._job = job
        self._kept = kept
        self._target = Target(spark, job.out)
        self._rejects = Target(spark, job.reject_to) if job.reject_to else None
        self._relations = {r.name: r for r in job.relations}
        for table, relation in job.tables.items():
            if relation not in self._relations:
                raise UsageError(f"--table {table}={relation}: the spec has no relation {relation}")
        tables = Tables(self._relations, job.tables, job.only)
        with explained(job.path):
            self._events = _events(spark, job, tables).persist()
        kept.callback(self._events.unpersist)

    def run(self) -> EventsExtracted:
        with explained(self._job.path):
            facts = _Facts(self._job, self._events)
        facts.check()
        batch = self._batch(facts)
        if batch is not None and self._target.holds(batch):
            return EventsExtracted(self._job.out, batch, False, skipped=facts.skipped)
        if self._rejects is not None and self._rejects.is_there():
            raise UsageError(f"--reject-to {self._job.reject_to}: it is there already; name another directory")
        with explained(f"extracting {self._job.path}"):
            found = {name: self._changes(name, facts) for name in facts.relations}
            counts = Counter[str]()
            for rows in found.values():
                counts.update(
                    {row["what"]: row["count"] for row in rows.groupBy(_what().alias("what")).count().collect()}
                )
            bad = facts.bad + counts[BAD]
            if bad:
                self._set_aside(reduce(DataFrame.unionAll, map(_bad, [self._events, *found.values()])), bad)
            if batch is None:
                return EventsExtracted(self._job.out, None, False, bad=bad, skipped=facts.skipped)
            self._target.write_in_order({name: self._log(name, rows) for name, rows in found.items()}, batch)
        return EventsExtracted(
            self._job.out,
            batch,
            True,
            inserted=counts[INSERT],
            replaced=counts[POSTIMAGE],
            deleted=counts[DELETE],
            bad=bad,
            skipped=facts.skipped,
            by_time=TIME in facts.kinds,
        )

    def _changes(self, name: str, facts: _Facts) -> DataFrame:
        """The changes of a relation in their order, and bad events among them; kept by Spark."""
        relation = self._relations[name]
        events = self._events.filter((f.col("relation") == name) & f.col("reason").isNull())
        once = _once(events) if relation.key else events
        ordered = in_order(once, facts.many(name), ("version", "minor", "file", "block", "id"))
        made = ordered.select("line", "version", "file").mapInArrow(
            translate(relation, self._job.rules), changes_schema(relation)
        )
        self._kept.callback(made.persist().unpersist)
        return made

    def _log(self, name: str, rows: DataFrame) -> DataFrame:
        columns = self._relations[name].columns
        values = [_carried(f.col(f"v{i}"), c.type).alias(c.name) for i, c in enumerate(columns)]
        return rows.filter(f.col("reason").isNull()).select(CHANGE_TYPE, "_commit_version", *values)

    def _set_aside(self, bad: DataFrame, many: int) -> None:
        if self._rejects is None:
            raise rejection("events", bad, many, _SamePlaces())
        self._rejects.write_texts(as_lines(bad))

    def _batch(self, facts: _Facts) -> Batch | None:
        """What the events are; None if there are none."""
        job = self._job
        if facts.start is None:
            return None
        first = facts.start if job.start is None else job.start
        if first >= facts.stop:
            raise UsageError(f"--from {first}: the events go up to {facts.stop} only")
        default = "debezium" if job.only is None else f"debezium:{job.only}"
        return Batch(
            source=job.source or default,
            start=str(first),
            stop=str(facts.stop),
            relation=",".join(facts.relations),
            columns=tuple(f"{name}.{c.name}" for name in facts.relations for c in self._relations[name].columns),
            key=tuple(f"{name}.{k}" for name in facts.relations for k in self._relations[name].key),
        )


def _events(spark: SparkSession, job: DebeziumJob, tables: Tables) -> DataFrame:
    lines = spark.read.option("recursiveFileLookup", "true").text(job.path)
    # Within a file lines have growing ids, but its blocks may be read in any order.
    placed = lines.select(
        "value",
        f.col("_metadata.file_path").alias("file"),
        f.col("_metadata.file_block_start").alias("block"),
        f.monotonically_increasing_id().alias("id"),
    )
    events = placed.mapInArrow(describe(tables), EVENTS)
    if job.after is None:
        return events
    return events.filter(f.col("version").isNull() | (f.col("version") > job.after))


def _once(events: DataFrame) -> DataFrame:
    """Without events that a connector sent twice."""
    # What has no unique position is its own partition, and stays.
    own = f.when(f.col("unique").isNull(), f.struct("file", "block", "id"))
    times = f.row_number().over(
        Window.partitionBy("unique", own, "op", "key").orderBy("version", "file", "block", "id")
    )
    return events.withColumn("times", times).filter(f.col("times") == 1)


def _what() -> Column:
    return f.when(f.col("reason").isNotNull(), f.lit(BAD)).otherwise(f.col(CHANGE_TYPE))


def _carried(number: Column, kind: Type) -> Column:
    """Times come from Python as numbers, see `images`."""
    if kind.name == "time":
        return f.time_from_micros(number)
    return f.timestamp_micros(number) if kind.name == "timestamp" else number


def _bad(rows: DataFrame) -> DataFrame:
    """What cannot be taken, as `rejects` takes it."""
    row = "row" if "row" in rows.columns else "line"
    return rows.filter(f.col("reason").isNotNull()).select(
        f.col("file").alias("snapshot"), "reason", f.col(row).alias("row"), f.lit(1).alias("copies")
    )


class _SamePlaces(dict[str, str]):
    """Report bad events with the file that they stand in."""

    def __missing__(self, name: str) -> str:
        return name


class _Facts:
    """What is known of the events after one look at all of them."""

    def __init__(self, job: DebeziumJob, events: DataFrame) -> None:
        self._job = job
        grouped = events.groupBy("relation", "table", "op", "kind", "server", f.col("reason").isNotNull().alias("bad"))
        found = grouped.agg(
            f.count("*").alias("many"), f.min("version").alias("low"), f.max("version").alias("high")
        ).collect()
        self._good = [row for row in found if not row["bad"] and row["relation"] is not None]
        self.bad = sum(row["many"] for row in found if row["bad"])
        self.kinds = {row["kind"] for row in self._good}
        self.relations = sorted({row["relation"] for row in self._good})
        self.start = min((row["low"] - 1 for row in self._good), default=None)
        self.stop = max((row["high"] for row in self._good), default=0)
        self.skipped: dict[str, int] = {}
        for row in found:
            if not row["bad"] and row["relation"] is None:
                self.skipped[row["table"]] = self.skipped.get(row["table"], 0) + row["many"]

    def many(self, relation: str) -> int:
        """How many events a relation has."""
        return sum(row["many"] for row in self._good if row["relation"] == relation)

    def check(self) -> None:
        """What rules the events out as a whole."""
        for problem in self._problems():
            raise problem

    def _problems(self) -> Iterator[DynqError]:
        for row in self._good:
            if row["op"] == TRUNCATE:
                yield RejectedError(
                    f"{self._job.path}: {row['table'] or row['relation']} was truncated at {row['low']}; which rows"
                    f" went is not in the log\n  hint: {_TRUNCATION_HINT}"
                )
        if len(self.kinds) > 1:
            said = ", ".join(sorted(self.kinds))
            yield RejectedError(
                f"{self._job.path}: events of several kinds of databases ({said}) have no common order\n"
                "  hint: extract those of each connector by themselves, with a --source of their own"
            )
        servers = {row["server"] for row in self._good if row["server"] is not None}
        if len(servers) > 1:
            yield RejectedError(
                f"{self._job.path}: events of several servers ({', '.join(sorted(servers))}), whose binlogs are"
                " numbered apart\n  hint: extract those of each server by themselves, the earlier one first"
            )
        for relation in self.relations:
            tables = {row["table"] for row in self._good if row["relation"] == relation}
            named = {table for table in tables for name in self._job.tables if _ends(table, name)}
            if self._job.only is None and len(tables) > 1 and tables - named:
                yield UsageError(
                    f"{relation} stands for several tables: {', '.join(sorted(tables))}\n"
                    f"  hint: say which are meant with --table SCHEMA.TABLE={relation}"
                )


def _ends(table: str, name: str) -> bool:
    return table == name or table.endswith(f".{name}")
