"""`dynq init`: make a state from a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynq_cli.cli import options
from dynq_cli.errors import UsageError


def init(
    spec: options.Spec,
    load: Annotated[
        list[str] | None,
        typer.Option("--load", metavar="REL=PATH", help="Fill a relation from a snapshot; may be repeated."),
    ] = None,
    state: Annotated[
        str, typer.Option("--state", "-s", metavar="DIR", envvar="DYNQ_STATE", help="The state directory.")
    ] = ".dynq",
) -> None:
    """Make the state of a spec. This version checks the spec and keeps no state yet."""
    for item in load or ():
        relation, equals, path = item.partition("=")
        if not (relation and equals and path):
            raise UsageError(f"--load {item} names no relation: write --load RELATION=PATH")
        if not Path(path).exists():
            raise UsageError(f"--load {item}: there is no {path}")
    from dynq_cli.session.explain import check_supported

    check_supported(spec)
