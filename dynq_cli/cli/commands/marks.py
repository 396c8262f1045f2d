"""`dynq marks`: the versions that have names."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options, output


def marks(
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print an object: versions by name.")] = False,
) -> None:
    """Print all marks, each with its version, a line each, by name."""
    from dynq_cli.storage.state import open

    found = dict(sorted(open(state).marks.items()))
    if as_json:
        import json

        output.result(json.dumps(found))
        return
    width = max(map(len, found), default=0)
    for name, version in found.items():
        output.result(f"{name:<{width}}  {version}")
