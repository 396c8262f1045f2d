"""`extract stream`: change logs that arrive in a directory, applied to a state in micro-batches, each exactly once.

    Spark     says which files a batch has, on disk before the batch begins, and that it is done, when it has ended:
              a batch that was cut short comes again, under the same number, with the same files
    dynq      knows a batch by its stream, number and files (the ledger), and applies it as one version, once

So a job that is killed, at whatever point, is started again and goes on. What Spark remembers (the checkpoint) and what
the state holds have to belong together: where one of them is gone, or was put back to an earlier moment, files would be
left out or applied twice. That is found out before anything is applied, and refused.

A batch on its way is an extraction directory beside the checkpoint, with the files under the names that they have.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.spark.files import Files
from dynq_cli.spark.said import explained
from dynq_cli.spark.session import settings
from dynq_cli.spark.write import BATCH_FILE, SUCCESS
from dynq_cli.storage.layout import write_whole
from dynq_cli.storage.lock import holding
from dynq_cli.storage.manifest import read_manifest

_CHECKPOINT, _BATCH, _PROGRESS, _LOCK = "spark", "batch", "progress.json", "lock"
# Spark takes no notice of files that are much older than the newest, unless told otherwise: here none is left out.
_FORCED = {"maxFileAge": "36500d", "latestFirst": "false", "recursiveFileLookup": "true"}
_FACTS = "path string, modificationTime timestamp, length bigint, content binary"
_POLL = 1  # seconds

Apply = Callable[[str], bool]


@dataclass(frozen=True)
class StreamJob:
    """What is to be applied: the change logs that arrive in `path`, to `state`.

    `name` tells the streams into a state apart. `work` is where the stream keeps its place. Without `every` (as Spark
    writes durations) the job ends when everything that is there is applied.
    """

    path: str
    state: str
    name: str
    work: str
    every: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"stream:{self.name}"


def extract_stream(spark: SparkSession, job: StreamJob, apply: Apply) -> int:
    """Apply what arrives; the number of batches that this job applied.

    `apply` takes an extraction directory into the state, as one version or, if it was applied before, not at all, and
    says whether there were logs in it. LockedError if another job is at work on this stream; RejectedError, from here
    or from `apply`, for a batch that cannot be applied: the next job begins with it.
    """
    work = Path(job.work)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--checkpoint {job.work} cannot be made: {error.strerror or error}") from error
    with holding(work / _LOCK, f"{job.work} is of a stream that another process is at work on"), settings(spark):
        return _Stream(spark, job, apply).run()


class _Stream:
    """A job at work."""

    def __init__(self, spark: SparkSession, job: StreamJob, apply: Apply) -> None:
        self._spark = spark
        self._files = Files(spark)
        self._job = job
        self._apply = apply
        self._work = Path(job.work)
        self._failed: BaseException | None = None
        self._at_work = threading.Lock()
        self._taken = self._applied = 0

    def run(self) -> int:
        with explained(self._job.path):
            if not self._files.is_directory(self._job.path):
                raise UsageError(f"there is no directory {self._job.path}")
            self._root = self._files.absolute(self._job.path).rstrip("/")
        while self._query() and self._job.every is None:
            # After a batch that came again, Spark may end one file before the last.
            pass
        return self._applied

    def _query(self) -> int:
        """Let Spark hand out batches until it ends; how many there were."""
        before = self._taken
        with explained(self._job.path):
            query = self._start()
        try:
            self._wait(query)
        finally:
            # Not in the middle of a batch: that would do no harm, but be work for nothing.
            with self._at_work, suppress(Py4JError, PySparkException):
                query.stop()
        return self._taken - before

    def _start(self) -> StreamingQuery:
        # Only which files there are is asked of Spark; what is in them is read as by `dynq apply`.
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
        """What Spark calls for each batch; when it returns, the batch is done."""
        with self._at_work:
            try:
                with explained(self._job.path):
                    self._take_batch(number, sorted(row["path"] for row in arrived.collect()))
            except BaseException as error:
                self._failed = error
                raise

    def _take_batch(self, number: int, paths: Sequence[str]) -> None:
        here = Batch(self._id(), number, _digest(paths))
        done = _Progress.read(self._work / _PROGRESS)
        last = self._last(here, done)
        if last == str(here):
            done = _Progress(here.checkpoint, number, number)
        else:
            has_logs = self._apply(str(self._gather(here, last, paths)))
            self._applied += has_logs
            done = _Progress(here.checkpoint, number, number if has_logs else done.applied)
        done.write(self._work / _PROGRESS)
        self._taken += 1
        shutil.rmtree(self._work / _BATCH, ignore_errors=True)

    def _id(self) -> str:
        """What Spark calls the checkpoint, for as long as there is one."""
        said = json.loads((self._work / _CHECKPOINT / "metadata").read_text("utf-8"))
        return str(said["id"])

    def _last(self, here: Batch, done: _Progress) -> str:
        """The batch that the state has last, or "". RejectedError if this one does not come after it, and is not it."""
        applied = read_manifest(Path(self._job.state)).sources.get(self._job.source, ())
        last = applied[-1][1] if applied else ""
        known = Batch.parse(last)
        if last and (known is None or known.checkpoint != here.checkpoint):
            raise self._refused(f"the state was fed from another one, up to {last}")
        if known is not None and (known.number > here.number or (known.number == here.number and known != here)):
            raise self._refused(f"it is older than the state, which has batch {known.number} already")
        if done.checkpoint not in ("", here.checkpoint) or done.done < here.number - 1:
            raise self._refused(f"nothing tells whether the batches before {here.number} were applied")
        if done.applied > (-1 if known is None else known.number):
            raise self._refused(f"the state is older, and lacks batches up to {done.applied}")
        return last

    def _refused(self, why: str) -> RejectedError:
        return RejectedError(
            f"the checkpoint {self._job.work} and the state {self._job.state} do not belong together: {why};"
            " nothing was applied\n  hint: put back what belongs together, or make a new state and begin with a new"
            " checkpoint"
        )

    def _gather(self, here: Batch, last: str, paths: Sequence[str]) -> Path:
        """The files of a batch as an extraction."""
        folder = self._work / _BATCH
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in paths:
            target = folder / path.removeprefix(self._root).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._fetch(path, str(target))
        named = {"source": self._job.source, "from": last, "to": str(here)}
        (folder / BATCH_FILE).write_text(json.dumps(named), "utf-8")
        (folder / SUCCESS).touch()
        return folder

    def _fetch(self, path: str, target: str) -> None:
        try:
            self._files.fetch(path, target)
        except FileNotFoundError:
            raise RejectedError(
                f"{path} is gone, but was not applied yet; nothing of its batch was applied\n  hint: put it back"
            ) from None
        except OSError as error:
            raise DynqError(f"{path} cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True)
class Batch:
    """A batch of a checkpoint: its number, and a digest of the names of its files."""

    checkpoint: str
    number: int
    files: str

    def __str__(self) -> str:
        return f"{self.checkpoint}/{self.number}/{self.files}"

    @staticmethod
    def parse(text: str) -> Batch | None:
        """The batch that a text names; None if it names none.

        >>> Batch.parse(str(Batch("a-b", 7, "c0ffee")))
        Batch(checkpoint='a-b', number=7, files='c0ffee')
        >>> Batch.parse("yesterday")
        """
        checkpoint, _, rest = text.partition("/")
        number, _, files = rest.partition("/")
        return Batch(checkpoint, int(number), files) if number.isdecimal() and files else None


@dataclass(frozen=True)
class _Progress:
    """How far a checkpoint got: the last batch that is done, and the last that had logs; -1 for none."""

    checkpoint: str = ""
    done: int = -1
    applied: int = -1

    @staticmethod
    def read(path: Path) -> _Progress:
        try:
            return _Progress(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return _Progress()
        except (ValueError, TypeError) as error:
            raise RejectedError(f"{path} is damaged: {error}\n  hint: put it back with its checkpoint") from error

    def write(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self)).encode())


def _digest(paths: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16]
