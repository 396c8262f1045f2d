"""`dynq extract changes`: the change feed that a catalog keeps of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import output
from dynq_cli.cli.commands.extract.job import print_json, run_job
from dynq_cli.cli.commands.extract.options import (
    ConfOption,
    JsonOption,
    OutOption,
    ReaderOption,
    RejectOption,
    RelationOption,
    SourceOption,
    SpecOption,
    StateOption,
)


def changes(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="The table, as Spark's catalogs call it.", show_default=False)
    ],
    relation: RelationOption,
    out: OutOption,
    start: Annotated[
        str | None, typer.Option("--from", metavar="V", help="What happened after version V. [from the beginning]")
    ] = None,
    stop: Annotated[str | None, typer.Option("--to", metavar="V", help="Up to version V. [the last one]")] = None,
    by_time: Annotated[
        bool,
        typer.Option("--by-time", help="Commits are ordered by their time, and V is one: for Iceberg's snapshots."),
    ] = False,
    spec: SpecOption = None,
    state: StateOption = None,
    option: ReaderOption = None,
    reject_to: RejectOption = None,
    source: SourceOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the change feed that a catalog keeps of a table (Delta, Iceberg) as a change log.

    Needs a catalog that has one for Spark's own reader of changes, given to Spark with --conf. The next extraction
    begins --from where this one ended, which it says.
    """
    from dynq_cli.spark.check import require

    require()
    from dynq_cli.spark.changes import ChangesJob, extract_changes
    from dynq_cli.spark.described import relation_of
    from dynq_cli.spark.program import pairs

    job = ChangesJob(
        table=table,
        out=out,
        relation=relation_of(relation, spec, state),
        start=start,
        stop=stop,
        by_time=by_time,
        options=pairs("--option", option or []),
        reject_to=reject_to,
        source=source,
    )
    done = run_job(extract_changes, job, conf)
    output.note(done.line())
    if as_json:
        print_json(done)
