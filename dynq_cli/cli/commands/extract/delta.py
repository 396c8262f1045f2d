"""`dynq extract delta`: what happened to a Delta table, read without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import output
from dynq_cli.cli.commands.extract.options import (
    JsonOption,
    OutOption,
    RelationOption,
    SourceOption,
    SpecOption,
    StateOption,
)
from dynq_cli.cli.ending import terminable


def delta(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="The table's directory, or its URL.", show_default=False)
    ],
    relation: RelationOption,
    out: OutOption,
    start: Annotated[
        int | None,
        typer.Option(
            "--from", metavar="V", min=0, help="What happened after version V. [what the state has; else all rows]"
        ),
    ] = None,
    stop: Annotated[
        int | None, typer.Option("--to", metavar="V", min=0, help="Up to version V. [the last one]")
    ] = None,
    spec: SpecOption = None,
    state: StateOption = None,
    source: SourceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what happened to a Delta table as a change log, without Spark.

    The first extraction has all rows of the table. Later ones begin where the state is: applying a change log notes the
    table and its version in the ledger. They read the change data feed, which has to be switched on in the table:
    delta.enableChangeDataFeed = true. Where nothing happened, nothing is written, and the exit code is 0.
    """
    from dynq_cli.io.tables.delta_feed import open_feed
    from dynq_cli.session.extract_table import TableJob, extract_table
    from dynq_cli.spark.described import relation_of, state_of

    job = TableJob(table, out, relation_of(relation, spec, state), start, source)
    with terminable(), open_feed(table, stop) as feed:
        done = extract_table(job, feed, state_of(state))
    output.note(done.line())
    if as_json:
        import json

        output.result(json.dumps(done.to_json(), ensure_ascii=False))
