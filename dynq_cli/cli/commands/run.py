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
    quarantine: Annotated[
        str | None,
        typer.Option("--quarantine", metavar="DIR", help="Set logs aside that are refused, and apply the others."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Apply what is new in INBOX, by name, then write all outputs of the spec.

    Made for cron: nothing new and all outputs written is exit code 0, and nothing is written. At a log that is rejected
    it stops, writes the outputs of the version before it, and exits with 3. Killed at any moment, the next run goes on
    from there, and no output is lost or written twice. Paths of outputs are relative to the working directory.

    With --quarantine a log that is rejected moves into DIR, NAME.reason.json beside it says why, the others are
    applied, and the exit code is 3 at the end. A full disk, a state in use or damaged, and a view over its budget set
    nothing aside.
    """
    from dynq_cli.cli.commands.apply import described
    from dynq_cli.session.run import run as run_inbox
    from dynq_cli.storage.state import open

    applied: list[Outcome] = []
    refusals: list[Outcome] = []
    written: list[str] = []
    refused = None
    with terminable(), Progress("applying") as bar:

        def tell(outcome: Outcome) -> None:
            bar.hide()
            for warning in outcome.warnings:
                output.warn(warning)
            if outcome.refused:
                refusals.append(outcome)
                _warn_refused(outcome)
                return
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
            run_inbox(state, inbox, tell, wrote, bar.add, quarantine)
        except RejectedError as error:
            refused = error
    if as_json:
        import json

        said = {
            "version": open(state).version,
            "applied": [outcome.to_json() for outcome in applied],
            "written": written,
            "refused": [{"path": o.path, "reason": o.reason, "set_aside": o.set_aside or None} for o in refusals],
            "rejected": refused and str(refused),
        }
        output.result(json.dumps(said, ensure_ascii=False))
    if refused is not None:
        raise refused


def _warn_refused(outcome: Outcome) -> None:
    """A log that was refused, and where it is now."""
    where = f"set aside as {outcome.set_aside}" if outcome.set_aside else "left where it is"
    reason, *hint = outcome.reason.split("\n")
    message = "\n".join([f"{reason}; {where}", *hint])
    output.warn(message, code="rejected", path=outcome.path, set_aside=outcome.set_aside or None)
