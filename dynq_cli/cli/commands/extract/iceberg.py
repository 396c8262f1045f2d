"""`dynq extract iceberg`: what was appended to an Iceberg table, read without Spark."""

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


def iceberg(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="The table in the catalog: NAMESPACE.TABLE, or CATALOG:NAMESPACE.TABLE.",
            show_default=False,
        ),
    ],
    relation: RelationOption,
    out: OutOption,
    start: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="N",
            min=0,
            help="What was appended after the snapshot with sequence number N. [what the state has; else all rows]",
        ),
    ] = None,
    stop: Annotated[
        int | None, typer.Option("--to", metavar="N", min=0, help="Up to sequence number N. [the last one]")
    ] = None,
    spec: SpecOption = None,
    state: StateOption = None,
    source: SourceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what was appended to an Iceberg table as a change log, without Spark.

    The catalog is that of pyiceberg's own configuration (.pyiceberg.yaml, PYICEBERG_CATALOG__...). The first extraction
    has all rows of the table; later ones begin where the state is. Snapshots that compact files change no row. If rows
    were deleted or overwritten since, nothing is written, exit code 3: dynq extract changes reads that with Spark.
    """
    from dynq_cli.io.tables.iceberg_feed import open_feed
    from dynq_cli.session.extract_table import TableJob, extract_table
    from dynq_cli.spark.described import relation_of, state_of

    job = TableJob(table, out, relation_of(relation, spec, state), start, source)
    with terminable(), open_feed(table, stop) as feed:
        done = extract_table(job, feed, state_of(state))
    output.note(done.line())
    if as_json:
        import json

        output.result(json.dumps(done.to_json(), ensure_ascii=False))
