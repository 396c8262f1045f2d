"""`dynq extract debezium`: files of Debezium's events."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import output
from dynq_cli.cli.commands.extract.job import print_json, run_job
from dynq_cli.cli.commands.extract.options import ConfOption, JsonOption, StateOption

if TYPE_CHECKING:
    from dynq_cli.spark.debezium.job import EventsExtracted


class TimeUnit(StrEnum):
    ms = "ms"
    us = "us"
    ns = "ns"


def debezium(
    path: Annotated[
        str,
        typer.Argument(metavar="IN", help="Events as JSON lines: a file, a directory, a pattern.", show_default=False),
    ],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The directory to write, new.", show_default=False)],
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="SPEC", help="The spec that has the relations and their columns.")
    ] = None,
    state: StateOption = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", metavar="NAME", help="All events are of this relation. [by source.table]"),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="TABLE=NAME",
            help="The relation of a table, called TABLE, SCHEMA.TABLE or DB.SCHEMA.TABLE; may be repeated.",
        ),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="N", help="Leave out events up to position N, which were extracted before."),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option("--from", metavar="N", help="The batch begins after position N. [before the first event]"),
    ] = None,
    time_unit: Annotated[
        TimeUnit | None,
        typer.Option("--time-unit", help="The unit of times that are numbers in events without schema."),
    ] = None,
    decimal_bytes: Annotated[
        bool,
        typer.Option(
            "--decimal-bytes", help="Decimals of events without schema are bytes, with as many places as the spec says."
        ),
    ] = False,
    reject_to: Annotated[
        str | None,
        typer.Option("--reject-to", metavar="DIR", help="Set bad events aside there, instead of failing."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="What the events are of, in the batch id. [debezium]")
    ] = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write Debezium's events, of many tables at once, as one change log.

    Events are put in the order of their database's log, whatever order they arrived in, and those that a connector sent
    twice are taken once, where the relation has a key. Tables that the spec does not have are passed over. A truncation
    is refused; bad events are shown, and nothing is written: exit code 3.
    """
    from dynq_cli.spark.check import require

    require()
    from dynq_cli.spark.debezium.images import Schemaless
    from dynq_cli.spark.debezium.job import DebeziumJob, extract_debezium
    from dynq_cli.spark.described import named, spec_of
    from dynq_cli.spark.program import pairs

    found = spec_of(spec, state)
    if relation is not None:
        named(relation, found, spec or state or "the spec")
    job = DebeziumJob(
        path=path,
        out=out,
        relations=tuple(found.relations),
        only=relation,
        tables=pairs("--table", table or []),
        rules=Schemaless(time_unit and time_unit.value, decimal_bytes),
        after=after,
        start=start,
        reject_to=reject_to,
        source=source,
    )
    done = run_job(extract_debezium, job, conf)
    _tell(done, path)
    if as_json:
        print_json(done)


def _tell(done: EventsExtracted, path: str) -> None:
    for name, many in sorted(done.skipped.items()):
        output.detail(f"{name}: {many:,} events passed over, the spec has no such relation")
    if done.by_time:
        output.warn(
            f"{path}: the events say no position in a log, so they are ordered by time; what has the same"
            " millisecond is left in the order of the files"
        )
    output.note(done.line())
