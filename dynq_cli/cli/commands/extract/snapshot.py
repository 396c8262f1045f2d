"""`dynq extract snapshot`: the difference of two snapshots of a table."""

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


def snapshot(
    after: Annotated[
        str, typer.Option("--after", metavar="B", help="The later snapshot: a path or a table.", show_default=False)
    ],
    relation: RelationOption,
    out: OutOption,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="A", help="The earlier snapshot; without it, all rows are new."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="COLUMN", help="Tell rows apart by this column; may be repeated. [the spec's key]"
        ),
    ] = None,
    spec: SpecOption = None,
    state: StateOption = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="COLUMN", help="Ignore changes of this column alone; may be repeated."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="parquet, csv, json, orc, jdbc, table, or any that Spark has. [by name]"
        ),
    ] = None,
    before_form: Annotated[
        str | None, typer.Option("--before-format", metavar="FORMAT", help="The format of A, if it is another one.")
    ] = None,
    option: ReaderOption = None,
    reject_to: RejectOption = None,
    source: SourceOption = None,
    before_name: Annotated[
        str | None, typer.Option("--before-name", metavar="NAME", help="What A is called there. [by its files]")
    ] = None,
    after_name: Annotated[
        str | None, typer.Option("--after-name", metavar="NAME", help="What B is called there. [by its files]")
    ] = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the difference of two snapshots of a table as a change log.

    With a key: inserts, deletes and updates; without: copies of rows that came and went. OUT is there whole or not at
    all, and dynq apply takes it once. Bad rows are shown, and nothing is written: exit code 3.
    """
    from dynq_cli.spark.check import require

    require()
    from dynq_cli.spark.described import relation_of
    from dynq_cli.spark.program import pairs, told
    from dynq_cli.spark.snapshot import SnapshotJob, extract_snapshot

    job = SnapshotJob(
        after=after,
        out=out,
        relation=relation_of(relation, spec, state),
        before=before,
        key=tuple(key) if key else None,
        ignored=tuple(ignore or ()),
        form=form,
        before_form=before_form,
        options=pairs("--option", option or []),
        reject_to=reject_to,
        source=source,
        before_name=before_name,
        after_name=after_name,
    )
    done = run_job(extract_snapshot, job, conf)
    output.note(told(done))
    if as_json:
        print_json(done)
