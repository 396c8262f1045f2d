"""The Spark session of an extraction: the active one, or a new quiet one.

A new session runs on this machine (`local[*]`), unless spark-submit or Spark's configuration says otherwise. During a
job, `settings` sets the session to a known state (UTC, ANSI, exact names, microseconds), and restores it at the end.
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

# For new sessions only: turn off features that a job of a few seconds does not need.
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
    # The value in a partition directory is a text; the spec has its type.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Read a number in JSON as its text; otherwise it would become a double first.
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.adaptive.enabled": "true",
    # Keep empty relations in the plan: their counts are needed even if nothing is written.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # Small partitions, so that all cores finish at about the same time.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # Compile equal steps once, wherever they occur in a plan.
    "spark.sql.codegen.useIdInClassName": "false",
    # Let cached results have fewer partitions: 200 tasks for a few rows would take seconds.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
}
# Spark's default, 200, is for clusters: on one machine it doubles the time of a join of some million rows.
_PARTITIONS, _FEWEST_PARTITIONS = "spark.sql.shuffle.partitions", 16
_STDERR = 2
_SHOWN = 400


def get_session(conf: Mapping[str, str] | None = None, *, quiet: bool = True) -> SparkSession:
    """Return the active session, or a new one with `conf`; MissingError if a requirement is not installed.

    With `quiet`, Java's stderr is not shown, except the reason if it does not start.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    require()
    # Workers run this interpreter; a cluster names its own in its configuration.
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
    """Set the session as extraction needs it; restore it at the end."""
    before = {name: spark.conf.get(name, None) for name in _DURING}
    try:
        for name, value in _DURING.items():
            spark.conf.set(name, value)
        yield
    finally:
        # The session may have ended; then there is nothing to restore.
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
    """Redirect the stderr of processes started in the block to a file, which is shown only if the start fails."""
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
