"""`dynq run`: the cron line: what is new in a folder, then the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.ending import terminable
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import RejectedError

if TYPE_CHECKING:
    from dynq_cli.session.apply_logs import Outcome


def run(
    inbox: Annotated[
        str, typer.Argument(metavar="INBOX", help="The folder that change logs are put into.", show_default=False)
    ],
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Apply what is new in INBOX, by name, then write all outputs of the spec.

    Made for cron: nothing new and all outputs written is exit code 0, and nothing is written. At a log that is rejected
    it stops, writes the outputs of the version before it, and exits with 3. Killed at any moment, the next run goes on
    from there, and no output is lost or written twice. Paths of outputs are relative to the working directory.
    """
    from dynq_cli.cli.commands.apply import described
    from dynq_cli.session.run import run as run_inbox
    from dynq_cli.storage.state import open

    applied: list[Outcome] = []
    written: list[str] = []
    refused = None
    with terminable(), Progress("applying") as bar:

        def tell(outcome: Outcome) -> None:
            bar.hide()
            for warning in outcome.warnings:
                output.warn(warning)
            if outcome.version is None:
                output.detail(described(outcome))
                return
            applied.append(outcome)
            output.note(described(outcome))

        def wrote(path: str) -> None:
            bar.hide()
            written.append(path)
            output.note(f"wrote {path}")

        try:
            run_inbox(state, inbox, tell, wrote, bar.add)
        except RejectedError as error:
            refused = error
    if as_json:
        import json

        said = {
            "version": open(state).version,
            "applied": [outcome.to_json() for outcome in applied],
            "written": written,
            "rejected": refused and str(refused),
        }
        output.result(json.dumps(said, ensure_ascii=False))
    if refused is not None:
        raise refused
