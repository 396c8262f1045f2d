"""`dynq extract snapshot`: the difference of two snapshots of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import output


def snapshot(
    after: Annotated[
        str, typer.Option("--after", metavar="B", help="The later snapshot: a path or a table.", show_default=False)
    ],
    relation: Annotated[
        str, typer.Option("--relation", metavar="NAME", help="The relation it is of.", show_default=False)
    ],
    out: Annotated[
        str,
        typer.Option("--output", "-o", metavar="OUT", help="The directory to write, new.", show_default=False),
    ],
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
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="SPEC", help="The spec that has the relation's columns.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", "-s", metavar="DIR", envvar="DYNQ_STATE", help="The state whose spec has them. [.dynq, if there]"
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="COLUMN", help="A change of this column alone is none; may be repeated."),
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
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="An option of Spark's reader; may be repeated."),
    ] = None,
    reject_to: Annotated[
        str | None,
        typer.Option("--reject-to", metavar="DIR", help="Set bad rows aside there, instead of failing."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="What the table is called in the batch id.")
    ] = None,
    before_name: Annotated[
        str | None, typer.Option("--before-name", metavar="NAME", help="What A is called there. [by its files]")
    ] = None,
    after_name: Annotated[
        str | None, typer.Option("--after-name", metavar="NAME", help="What B is called there. [by its files]")
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="Spark's configuration; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Write the difference of two snapshots of a table as a change log.

    With a key: inserts, deletes and updates; without: copies of rows that came and went. OUT is there whole or not at
    all, and dynq apply takes it once. Bad rows are shown, and nothing is written: exit code 3.
    """
    from dynq_cli.spark.check import require

    require()
    from dynq_cli.spark.described import relation_of
    from dynq_cli.spark.program import pairs, told
    from dynq_cli.spark.session import get_session
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
    output.detail("starting Spark")
    with output.terminable():
        spark = get_session(pairs("--conf", conf or []), quiet=not output.settings.verbose)
        done = extract_snapshot(spark, job)
    output.note(told(done))
    if as_json:
        import json

        output.result(json.dumps(done.to_json(), ensure_ascii=False))
