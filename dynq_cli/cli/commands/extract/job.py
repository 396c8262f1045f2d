"""Run an extraction in a Spark session, and print its result as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dynq_cli.cli import output
from dynq_cli.cli.ending import terminable

if TYPE_CHECKING:
    from dynq_cli.spark.write import Done

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_job(extract: Callable[[Any, Job], Result], job: Job, conf: list[str] | None) -> Result:
    """Extract in a new Spark session with these settings; SIGTERM ends it cleanly."""
    from dynq_cli.spark.program import pairs
    from dynq_cli.spark.session import get_session

    output.detail("starting Spark")
    with terminable():
        spark = get_session(pairs("--conf", conf or []), quiet=not output.settings.verbose)
        return extract(spark, job)


def print_json(done: Done) -> None:
    output.result(json.dumps(done.to_json(), ensure_ascii=False))
