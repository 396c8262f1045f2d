"""`dynq extract jdbc`: what changed in a table of a database since the last time."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import output
from dynq_cli.cli.commands.extract.job import print_json, run_job
from dynq_cli.cli.commands.extract.options import (
    ConfOption,
    JsonOption,
    OutOption,
    RejectOption,
    RelationOption,
    SourceOption,
    SpecOption,
    StateOption,
)


def jdbc(
    url: Annotated[
        str,
        typer.Option(
            "--url",
            metavar="URL",
            help="The database: jdbc:postgresql://HOST/DATABASE, or the like.",
            show_default=False,
        ),
    ],
    table: Annotated[
        str, typer.Option("--table", metavar="TABLE", help="The table, or (SELECT ...) AS t.", show_default=False)
    ],
    relation: RelationOption,
    watermark: Annotated[
        str,
        typer.Option(
            "--watermark",
            metavar="COLUMN",
            help="The column that grows with every change: a timestamp, a date or a whole number.",
            show_default=False,
        ),
    ],
    out: OutOption,
    deleted_flag: Annotated[
        str | None,
        typer.Option(
            "--deleted-flag",
            metavar="COLUMN",
            help="Rows in which it is true, not zero, or a time, are deleted.",
        ),
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            metavar="DURATION",
            help="Read again what lies so far below the watermark: 90s, 5m, 2h, 1d, or a number for numbers.",
        ),
    ] = None,
    append_only: Annotated[
        bool,
        typer.Option("--append-only", help="Rows are only ever added to the table: then no key is needed."),
    ] = False,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="COLUMN", help="The key, where there is no spec; may be repeated. [the spec's key]"
        ),
    ] = None,
    spec: SpecOption = None,
    state: StateOption = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Who logs in to the database.")] = None,
    password_file: Annotated[
        str | None,
        typer.Option(
            "--password-file", metavar="FILE", help="The file with the password. [DYNQ_JDBC_PASSWORD, or the driver's]"
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="An option of Spark's JDBC reader; may be repeated."),
    ] = None,
    reject_to: RejectOption = None,
    source: SourceOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what changed in a table of a database since the last time as a change log.

    The watermark is kept beside OUT and moves on when OUT is there. Rows come as updates that replace or insert, so the
    relation needs a key, or the table has to be one that rows are only added to. A row that is deleted from the table
    is not seen: that needs --deleted-flag, or dynq extract snapshot.
    """
    from dynq_cli.spark.check import require

    require()
    from dynq_cli.spark.database import password_in
    from dynq_cli.spark.described import relation_of
    from dynq_cli.spark.jdbc import JdbcJob, extract_jdbc
    from dynq_cli.spark.program import pairs

    login = {"user": user} if user else {}
    login |= {"password": password_in(password_file)} if password_file else {}
    job = JdbcJob(
        url=url,
        table=table,
        out=out,
        relation=relation_of(relation, spec, state),
        watermark=watermark,
        key=tuple(key) if key else None,
        deleted_flag=deleted_flag,
        overlap=overlap,
        append_only=append_only,
        options=login | pairs("--option", option or []),
        reject_to=reject_to,
        source=source,
    )
    done = run_job(extract_jdbc, job, conf)
    output.note(done.line())
    if not (deleted_flag or append_only):
        output.note(f"rows deleted from {table} are not seen: that needs --deleted-flag, or dynq extract snapshot")
    if as_json:
        print_json(done)
