"""Several streaming jobs in one process, which share the seconds that Spark takes to start: a program.

    python -m tests.spark.stream_jobs FOLDER…

In each folder `in` is applied to `state`, a file at a time. It begins when a line comes on stdin: Spark starts while
whoever wants the jobs is still busy.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from dynq_cli.session.apply_logs import apply_logs
from dynq_cli.spark.session import get_session
from dynq_cli.spark.stream import StreamJob, extract_stream
from dynq_cli.storage.state import open as open_state
from tests.spark.conftest import CONF


def job(spark: SparkSession, folder: Path) -> int:
    def apply(batch: str) -> None:
        with open_state(folder / "state") as view:
            apply_logs(view, [batch])

    one = {"maxFilesPerTrigger": "1"}
    job = StreamJob(str(folder / "in"), str(folder / "state"), "in", str(folder / "work"), options=one)
    return extract_stream(spark, job, apply)


def main(folders: list[Path]) -> None:
    session = get_session(CONF)
    sys.stdin.readline()
    with ThreadPoolExecutor(len(folders)) as threads:
        # A session each: a job sets its session while it runs.
        list(threads.map(job, [session.newSession() for _ in folders], folders))


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
