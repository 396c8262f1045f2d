"""`extract stream`: change logs that arrive in a directory, applied to a state in micro-batches, each exactly once.

    Spark     records the files it has seen (`sources/0/N`), then the files of batch n (`offsets/n`), runs the batch,
              then records its end (`commits/n`): an interrupted batch is repeated with the same files
    dynq      applies a batch as one version, which names it, unless the state has it already (`microbatches`)

So a killed job can be restarted: nothing is lost, nothing repeated. A batch may have more files than
`maxFilesPerTrigger`: if Spark is killed after seeing files and before making a batch of them, the next batch has them
and the files seen then.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.spark.errors import explained
from dynq_cli.spark.files import Files
from dynq_cli.spark.microbatches import MicroBatch, MicroBatches
from dynq_cli.spark.session import settings
from dynq_cli.storage.lock import holding

_CHECKPOINT, _BATCH, _LOCK = "spark", "batch", "lock"
# By default, Spark skips files that are much older than the newest one, and may skip equal names in other directories.
_FORCED = {"maxFileAge": "36500d", "latestFirst": "false", "fileNameOnly": "false", "recursiveFileLookup": "true"}
_FACTS = "path string, modificationTime timestamp, length bigint, content binary"
_POLL = 1  # seconds

Apply = Callable[[str], object]


@dataclass(frozen=True)
class StreamJob:
    """The options of a job: apply the change logs that arrive in `path` to `state`.

    `name` identifies the stream in the state. `work` is the directory of its checkpoint. `every` is the interval, as
    Spark writes durations; without it, the job ends when all present files are applied.
    """

    path: str
    state: str
    name: str
    work: str
    every: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def extract_stream(spark: SparkSession, job: StreamJob, apply: Apply) -> int:
    """Apply arriving files; return the number of batches that this job applied.

    `apply` applies an extraction directory to the state as one version, unless it was applied before. LockedError if
    another job runs on this stream. RejectedError, from here or from `apply`, for a batch that cannot be applied: the
    next job starts with it.
    """
    work = Path(job.work)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--checkpoint {job.work} cannot be made: {error.strerror or error}") from error
    with holding(work / _LOCK, f"{job.work} is of a stream that another process is at work on"), settings(spark):
        return _Stream(spark, job, apply).run()


def rehearse_stream(spark: SparkSession, job: StreamJob, apply: Apply) -> tuple[int, int]:
    """Rehearse the next batch, with all files that wait; return how many batches there are, and files not rehearsed.

    `apply` rehearses an extraction directory. Spark runs on a copy of the checkpoint, so nothing is changed. If a batch
    was interrupted, it comes first, and files behind it are not rehearsed. LockedError as for `extract_stream`.
    """
    work = Path(job.work)
    options = {name: value for name, value in job.options.items() if name.lower() != "maxfilespertrigger"}
    with ExitStack() as stack:
        if work.is_dir():
            stack.enter_context(holding(work / _LOCK, f"{job.work} is of a stream that another process is at work on"))
        copied = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dynq-stream-"))) / "work"
        if work.is_dir():
            shutil.copytree(work, copied, ignore=shutil.ignore_patterns(_LOCK, _BATCH))
        copied.mkdir(exist_ok=True)
        stack.enter_context(settings(spark))
        stream = _Stream(spark, replace(job, work=str(copied), every=None, options=options), apply, rehearsal=True)
        return stream.run(), stream.passed


class _Stream:
    """Runs one job, or rehearses it: then only the first batch is given to `apply`."""

    def __init__(self, spark: SparkSession, job: StreamJob, apply: Apply, *, rehearsal: bool = False) -> None:
        self._rehearsal, self.passed = rehearsal, 0
        self._spark = spark
        self._files = Files(spark)
        self._job = job
        self._work = Path(job.work)
        self._batches = MicroBatches(
            Path(job.state), f"stream:{job.name}", job.work, self._work / _BATCH, apply, self._files.fetch
        )
        self._failed: BaseException | None = None
        self._at_work = threading.Lock()
        self._taken = self._applied = 0

    def run(self) -> int:
        with explained(self._job.path):
            if not self._files.is_directory(self._job.path):
                raise UsageError(f"there is no directory {self._job.path}")
            self._root = self._files.absolute(self._job.path).rstrip("/")
        while self._query() and self._job.every is None:
            # After a repeated batch, Spark may end before the last files.
            pass
        return self._applied

    def _query(self) -> int:
        """Run Spark's streaming query until it ends; return the number of batches."""
        before = self._taken
        with explained(self._job.path):
            query = self._start()
        try:
            self._wait(query)
        finally:
            # Do not stop in the middle of a batch: harmless, but the work would be lost.
            with self._at_work, suppress(Py4JError, PySparkException):
                query.stop()
        return self._taken - before

    def _start(self) -> StreamingQuery:
        # Spark only lists the files; `dynq apply` reads them.
        arrived = self._spark.readStream.format("binaryFile").options(**(dict(self._job.options) | _FORCED))
        writer = arrived.schema(_FACTS).load(self._job.path).select("path").writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._work.absolute() / _CHECKPOINT))
        every = self._job.every
        return (writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)).start()

    def _wait(self, query: StreamingQuery) -> None:
        try:
            with explained(self._job.path):
                while not query.awaitTermination(_POLL):
                    pass
        except DynqError:
            if self._failed is None:
                raise
        if self._failed is not None:
            raise self._failed

    def _take(self, arrived: DataFrame, number: int) -> None:
        """Apply one batch; Spark calls this, and records the batch as done when it returns."""
        with self._at_work:
            try:
                with explained(self._job.path):
                    self._take_batch(number, sorted(row["path"] for row in arrived.collect()))
            except BaseException as error:
                self._failed = error
                raise

    def _take_batch(self, number: int, paths: list[str]) -> None:
        files = {path.removeprefix(self._root).lstrip("/"): path for path in paths}
        if self._rehearsal and self._applied:
            self.passed += len(files)
            return
        here = MicroBatch.of(self._id(), number, files)
        self._applied += self._batches.take(here, files)
        self._taken += 1

    def _id(self) -> str:
        """Return Spark's id of the checkpoint."""
        said = json.loads((self._work / _CHECKPOINT / "metadata").read_text("utf-8"))
        return str(said["id"])
