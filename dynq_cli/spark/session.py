"""A Spark session to extract in: the one that is there, or a new one that keeps quiet.

A new session runs on this machine (`local[*]`), unless spark-submit or Spark's own configuration says otherwise. While
a job runs, `settings` puts the session into a known state (UTC, ANSI, exact names, microseconds) and puts everything
back at the end: a session that was handed in is left as it came.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dynq_cli.errors import DynqError
from dynq_cli.spark.check import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of a new session only: what a job of some seconds has no use for.
_NEW = {
    "spark.app.name": "dynq extract",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_DURING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.mergeSchema": "false",
    # A partition's directory says a text; what it means is up to the spec.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A number in JSON is the text that stands there; otherwise it would be a double first.
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.adaptive.enabled": "true",
    # Where nothing changed there is nothing to write, but what was counted has to be told.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # Parts so small that no core is left with one when the others have ended.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # Steps that do the same are compiled once, wherever they stand in a plan.
    "spark.sql.codegen.useIdInClassName": "false",
    # What is kept between two steps has as many partitions as it needs: 200 tasks for a few rows would take seconds.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
}
# Spark's default, 200, is for clusters: on one machine it doubles the time of a join of some million rows.
_PARTITIONS, _FEWEST_PARTITIONS = "spark.sql.shuffle.partitions", 16
_STDERR = 2
_SHOWN = 400


def get_session(conf: Mapping[str, str] | None = None, *, quiet: bool = True) -> SparkSession:
    """The active session, or a new one with `conf`; MissingError where there can be none.

    With `quiet`, what Java prints on stderr is not shown, except why it did not start.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    require()
    # Workers run the interpreter that runs this; a cluster has its own, which its configuration names.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in (_NEW | dict(conf or {})).items():
        builder = builder.config(name, value)
    with _silenced() if quiet else _loud():
        session: SparkSession = builder.getOrCreate()
    context = session.sparkContext
    if (context.master or "").startswith("local") and not context.getConf().contains(_PARTITIONS):
        session.conf.set(_PARTITIONS, str(max(_FEWEST_PARTITIONS, 4 * context.defaultParallelism)))
    return session


@contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """Set the session as extraction needs it, and back again."""
    before = {name: spark.conf.get(name, None) for name in _DURING}
    try:
        for name, value in _DURING.items():
            spark.conf.set(name, value)
        yield
    finally:
        # The session may be gone, and then there is nothing to put back.
        with suppress(Exception):
            for name, known in before.items():
                if known is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, known)


@contextmanager
def _loud() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _not_started(str(error)) from error


@contextmanager
def _silenced() -> Iterator[None]:
    """Let a process that is started meanwhile write its stderr to a file that nobody sees, as long as all goes well."""
    with tempfile.TemporaryFile() as log:
        kept = os.dup(_STDERR)
        os.dup2(log.fileno(), _STDERR)
        try:
            yield
        except Exception as error:
            log.seek(0)
            raise _not_started(log.read().decode(errors="replace") or str(error)) from error
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)


def _not_started(said: str) -> DynqError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if "Exception" in line or "rror" in line] or lines or ["it did not say why"]
    return DynqError(f"Spark did not start: {told[0][:_SHOWN]}\n  hint: dynq extract --check says what is missing")
