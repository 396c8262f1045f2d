"""`dynq extract`: change logs from tables, most by jobs that run on Spark. One file per job."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import output
from dynq_cli.cli.commands.extract.changes import changes
from dynq_cli.cli.commands.extract.debezium import debezium
from dynq_cli.cli.commands.extract.delta import delta
from dynq_cli.cli.commands.extract.iceberg import iceberg
from dynq_cli.cli.commands.extract.jdbc import jdbc
from dynq_cli.cli.commands.extract.snapshot import snapshot
from dynq_cli.cli.commands.extract.stream import stream
from dynq_cli.cli.values import Command, Group

app = typer.Typer(
    name="extract",
    cls=Group,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)


def _check(value: bool) -> None:
    if not value:
        return
    from dynq_cli.spark.check import MissingError, look

    found = look()
    if found.missing():
        raise MissingError(found.line())
    output.result(found.line())
    raise typer.Exit


@app.callback(no_args_is_help=True)
def extract(
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Say in a line what is missing on this machine: pyspark, Java, drivers.",
            callback=_check,
            expose_value=False,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Extract change logs from tables, for `dynq apply`.

    delta and iceberg need no Spark: pip install 'dynq-cli[delta,iceberg]'. The others need pyspark and Java:
    pip install 'dynq-cli[spark]'. Spark runs on this machine, unless its own configuration says otherwise;
    docs/spark.md has clusters.
    """


for _job in (changes, debezium, delta, iceberg, jdbc, snapshot, stream):
    app.command(cls=Command)(_job)
