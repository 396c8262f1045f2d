"""`extract snapshot`: write the difference of two snapshots of a table as a change log.

    extract_snapshot(spark, job)   the output, applied to a state with the rows of `before`, gives those of `after`

Before any row is read, the columns of both snapshots are compared with the spec, and an existing output is found. Bad
rows (a value that does not fit, a forbidden NULL, a repeated key) reject the job with examples, or are written to
`--reject-to`. Also a separate program for spark-submit: `python -m dynq_cli.spark.snapshot --help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.spark.columns import BAD, all_columns, misfits, typed
from dynq_cli.spark.database import java_in_utc
from dynq_cli.spark.errors import explained
from dynq_cli.spark.rejects import as_lines, rejection
from dynq_cli.spark.session import settings
from dynq_cli.spark.snapshot_diff_checked import DELETE, INSERT, UPDATE, Difference, Table, difference
from dynq_cli.spark.snapshot_diff_local import Sliced, plain_tables
from dynq_cli.spark.snapshot_diff_shuffle import AtOnce, Side, VoidError
from dynq_cli.spark.sources import Snapshot, open_snapshot
from dynq_cli.spark.write import Batch, Done, Target
from dynq_cli.spec.model import Relation


@dataclass(frozen=True)
class SnapshotJob:
    """The options of a job. `before` and `after` are paths or tables; without `before`, all rows are inserts.

    `relation` has the columns to extract and their types; if it has none, all columns are extracted. The default of
    `key` is the relation's key. A row whose `ignored` columns alone changed is unchanged.
    """

    after: str
    out: str
    relation: Relation
    before: str | None = None
    key: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()
    form: str | None = None
    before_form: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    reject_to: str | None = None
    source: str | None = None
    before_name: str | None = None
    after_name: str | None = None


@dataclass(frozen=True)
class Extracted(Done):
    """The result of a job; `written` is false if the output existed already, or there is nothing to extract."""

    batch: Batch
    written: bool
    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    bad: int = 0


def extract_snapshot(spark: SparkSession, job: SnapshotJob) -> Extracted:
    """Extract the difference of two snapshots.

    UsageError for missing tables and contradictory options; RejectedError for bad columns and bad rows. Then nothing is
    written. One pass over both snapshots and a shuffle by the key, or by the whole row; or a few passes and no shuffle
    (`snapshot_diff_local`).
    """
    with settings(spark), java_in_utc(spark):
        return _Extraction(spark, job).run()


class _Extraction:
    """Runs one job."""

    def __init__(self, spark: SparkSession, job: SnapshotJob) -> None:
        self._spark, self._job = spark, job
        self._target = Target(spark, job.out)
        self._rejects = Target(spark, job.reject_to) if job.reject_to else None
        declared = job.relation if job.relation.columns else None
        self._after = open_snapshot(spark, job.after, job.form, job.options, declared, job.after_name)
        self._before: Snapshot | None = None
        if job.before is not None:
            form = job.before_form or job.form
            self._before = open_snapshot(spark, job.before, form, job.options, declared, job.before_name)
        self._columns = declared.columns if declared else all_columns(self._after.place, self._after.frame, job.ignored)
        self._key = job.relation.key if job.key is None else job.key
        self._check()
        self._batch = Batch(
            source=job.source or f"snapshot:{job.relation.name}",
            start=self._before.name if self._before else "",
            stop=self._after.name,
            relation=job.relation.name,
            columns=tuple(c.name for c in self._columns),
            key=self._key,
            ignored=job.ignored,
        )

    def run(self) -> Extracted:
        if self._is_same_place() or self._target.holds(self._batch):
            return Extracted(self._job.out, self._batch, written=False)
        if self._rejects is not None and self._rejects.is_there():
            raise UsageError(f"--reject-to {self._job.reject_to}: it is there already; name another directory")
        with explained(f"extracting {self._job.relation.name}"):
            if self._before is not None and self._may_be_at_once(self._before):
                sides = [Side(snapshot, self._columns, self._key) for snapshot in (self._before, self._after)]
                with suppress(VoidError):
                    return self._sliced(*sides)
                with suppress(VoidError):
                    return self._at_once(*sides)
            before = None if self._before is None else self._typed(self._before)
            found = difference(before, self._typed(self._after), self._table())
            try:
                return self._finish(found)
            finally:
                found.close()

    def _may_be_at_once(self, before: Snapshot) -> bool:
        """Whether the job can start to write before it knows all changes.

        A table without files may change before it is read again. Equal floats may differ in bytes.
        """
        in_files = before.size and self._after.size
        has_exact_key = self._key and not any(c.type.is_float for c in self._columns if c.name in self._key)
        return bool(in_files and has_exact_key) and self._batch.start != self._batch.stop

    def _sliced(self, before: Side, after: Side) -> Extracted:
        """Extract with `snapshot_diff_local`: unchanged rows do not leave their tasks. VoidError as in `_at_once`."""
        tables = plain_tables(self._spark, before, after)
        if tables is None:
            raise VoidError
        try:
            return self._written(Sliced(self._spark, *tables, self._table()))
        except DynqError as error:
            # If the other ways fail too, they report the problem.
            raise VoidError from error

    def _at_once(self, before: Side, after: Side) -> Extracted:
        """Extract with `snapshot_diff_shuffle`. VoidError if that is not possible; then nothing is written."""
        return self._written(AtOnce(before, after, self._table()))

    def _written(self, found: Sliced | AtOnce) -> Extracted:
        self._target.write_in_order({self._job.relation.name: found.changes}, self._batch, found.check)
        return self._extracted(found.counts, 0)

    def _is_same_place(self) -> bool:
        """Whether both snapshots are one place. In two places, files may have equal lengths and times by chance."""
        same = self._batch.start == self._batch.stop
        return same and self._job.before == self._job.after and self._job.before_form in (None, self._job.form)

    def _finish(self, found: Difference) -> Extracted:
        counts = found.counts
        bad = counts.get(BAD, 0)
        if self._batch.start == self._batch.stop:
            if counts:
                raise UsageError(
                    f"{self._job.before} and {self._job.after} differ, but have the same name, {self._batch.stop}\n"
                    "  hint: give each snapshot its own name with --before-name and --after-name"
                )
            return Extracted(self._job.out, self._batch, written=False)
        if bad and self._rejects is None:
            raise self._rejected(found, bad)
        if bad and self._rejects is not None:
            self._rejects.write_texts(as_lines(found.bad()))
        rows = sum(counts.values()) - bad + counts.get(UPDATE, 0)
        self._target.write(found.changes(), rows, found.order(), self._batch)
        return self._extracted(counts, bad)

    def _extracted(self, counts: Mapping[str, int], bad: int) -> Extracted:
        return Extracted(
            self._job.out,
            self._batch,
            written=True,
            inserted=counts.get(INSERT, 0),
            replaced=counts.get(UPDATE, 0),
            deleted=counts.get(DELETE, 0),
            bad=bad,
        )

    def _typed(self, snapshot: Snapshot) -> DataFrame:
        return typed(snapshot.frame, self._columns, self._key, snapshot.texts)

    def _table(self) -> Table:
        names = [c.name for c in self._columns]
        compared = [i for i, name in enumerate(names) if name not in self._key and name not in self._job.ignored]
        # The state may have an older value of an ignored column than the snapshot, so rows are deleted by key.
        by_key = any(name in self._job.ignored for name in names)
        return Table(tuple(names), tuple(names.index(k) for k in self._key), tuple(compared), by_key)

    def _check(self) -> None:
        """Check the options and columns before any row is read; report all problems at once."""
        names = {c.name for c in self._columns}
        for name in self._key:
            if name not in names:
                raise UsageError(f"--key {name}: {self._job.relation.name} has no such column; it has {_listed(names)}")
            if name in self._job.ignored:
                raise UsageError(f"--ignore {name}: it is part of the key, which identifies rows")
        for name in self._job.ignored:
            if name not in names and name not in self._after.frame.columns:
                raise UsageError(f"--ignore {name}: there is no such column; there is {_listed(names)}")
            if name in names and not (self._key and set(self._key) == set(self._job.relation.key or self._key)):
                raise UsageError(
                    f"--ignore {name}: rows can be deleted without their {name} only by the key of the relation;"
                    f" give {self._job.relation.name} a `key:` in the spec, or leave {name} out of the spec"
                )
        said = [
            f"{snapshot.place}: {problem}"
            for snapshot in (self._before, self._after)
            if snapshot is not None
            for problem in misfits(snapshot.frame, self._columns, snapshot.texts)
        ]
        if said:
            raise RejectedError("\n".join(said) + "\n  hint: mend the table or the spec; no row was read")

    def _rejected(self, found: Difference, bad: int) -> RejectedError:
        places = {"before": self._before.place if self._before else "", "after": self._after.place}
        return rejection(self._job.relation.name, found.bad(), bad, places)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


if __name__ == "__main__":
    from dynq_cli.spark.program import run

    run()
