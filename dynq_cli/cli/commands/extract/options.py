"""The options that several jobs have."""

from __future__ import annotations

from typing import Annotated

import typer

RelationOption = Annotated[
    str, typer.Option("--relation", metavar="NAME", help="The relation it is of.", show_default=False)
]
OutOption = Annotated[
    str,
    typer.Option("--output", "-o", metavar="OUT", help="The directory to write, new.", show_default=False),
]
SpecOption = Annotated[
    str | None, typer.Option("--spec", metavar="SPEC", help="The spec that has the relation's columns.")
]
StateOption = Annotated[
    str | None,
    typer.Option(
        "--state", "-s", metavar="DIR", envvar="DYNQ_STATE", help="The state whose spec has them. [.dynq, if there]"
    ),
]
ReaderOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of Spark's reader; may be repeated."),
]
RejectOption = Annotated[
    str | None,
    typer.Option("--reject-to", metavar="DIR", help="Set bad rows aside there, instead of failing."),
]
SourceOption = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="What the table is called in the batch id.")
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="Spark's configuration; may be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]
