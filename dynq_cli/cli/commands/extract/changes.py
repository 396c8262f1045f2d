"""`dynq extract changes`: the change feed that a catalog keeps of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import output


def changes(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="The table, as Spark's catalogs call it.", show_default=False)
    ],
    relation: Annotated[
        str, typer.Option("--relation", metavar="NAME", help="The relation it is of.", show_default=False)
    ],
    out: Annotated[
        str,
        typer.Option("--output", "-o", metavar="OUT", help="The directory to write, new.", show_default=False),
    ],
    start: Annotated[
        str | None, typer.Option("--from", metavar="V", help="What happened after version V. [from the beginning]")
    ] = None,
    stop: Annotated[str | None, typer.Option("--to", metavar="V", help="Up to version V. [the last one]")] = None,
    by_time: Annotated[
        bool,
        typer.Option("--by-time", help="Commits are ordered by their time, and V is one: for Iceberg's snapshots."),
    ] = False,
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="SPEC", help="The spec that has the relation's columns.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", "-s", metavar="DIR", envvar="DYNQ_STATE", help="The state whose spec has them. [.dynq, if there]"
        ),
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
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="Spark's configuration; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
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
    from dynq_cli.spark.session import get_session

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
    output.detail("starting Spark")
    with output.terminable():
        spark = get_session(pairs("--conf", conf or []), quiet=not output.settings.verbose)
        done = extract_changes(spark, job)
    output.note(done.line())
    if as_json:
        import json

        output.result(json.dumps(done.to_json(), ensure_ascii=False))
