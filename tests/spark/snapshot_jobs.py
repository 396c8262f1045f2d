"""Several `extract snapshot` in one process, which share the seconds that Spark takes to start: a program.

    python -m tests.spark.snapshot_jobs FOLDER…

In each folder everything that is in `day1` is extracted to `inbox/out`, as relation R of `spec.yaml`.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from dynq_cli.spark.described import relation_of
from dynq_cli.spark.session import get_session
from dynq_cli.spark.snapshot import Extracted, SnapshotJob, extract_snapshot
from tests.spark.conftest import CONF


def job(spark: SparkSession, folder: Path) -> Extracted:
    relation = relation_of("R", str(folder / "spec.yaml"), None)
    return extract_snapshot(spark, SnapshotJob(str(folder / "day1"), str(folder / "inbox" / "out"), relation))


def main(folders: list[Path]) -> None:
    session = get_session(CONF)
    with ThreadPoolExecutor(len(folders)) as threads:
        # A session each: a job sets its session while it runs.
        list(threads.map(job, [session.newSession() for _ in folders], folders))


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
