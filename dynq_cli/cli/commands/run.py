"""`dynq run`: the cron line: what is new in a folder, then the outputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.ending import terminable
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import EXIT_RUNTIME, DynqError, LockedError, NoStateError, RejectedError, UsageError

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, change nothing.")] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="FILE.prom", help="Write what was done as Prometheus text, to be collected."),
    ] = None,
    openlineage: Annotated[
        str | None,
        typer.Option(
            "--openlineage", metavar="FILE.jsonl", help="Write what was read and written as OpenLineage events."
        ),
    ] = None,
    now: options.Now = None,
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
    from dynq_cli.spec.clock import moment
    from dynq_cli.storage.state import open

    for option, path in (("--metrics", metrics), ("--openlineage", openlineage)):
        if path is not None and dry_run:
            raise UsageError(f"--dry-run changes nothing, so there is nothing for {option} to write: give one of them")
    outcomes: list[Outcome] = []
    applied: list[Outcome] = []
    refusals: list[Outcome] = []
    written: list[str] = []
    refused = None
    with terminable(), _measured(metrics, openlineage, state, outcomes, written), Progress("applying") as bar:

        def tell(outcome: Outcome) -> None:
            bar.hide()
            outcomes.append(outcome)
            for warning in outcome.warnings:
                output.warn(warning)
            if outcome.refused:
                refusals.append(outcome)
                _warn_refused(outcome, dry_run=dry_run)
                return
            if outcome.version is None:
                output.detail(described(outcome))
                return
            applied.append(outcome)
            output.note(described(outcome, dry_run=dry_run))

        def wrote(path: str) -> None:
            bar.hide()
            written.append(path)
            output.note(f"{'would write' if dry_run else 'wrote'} {path}")

        try:
            time_now = None if now is None else moment(now)
            run_inbox(state, inbox, tell, wrote, bar.add, quarantine, dry_run=dry_run, now=time_now)
        except RejectedError as error:
            refused = error
        if as_json:
            import json

            said = {
                "version": open(state).version,
                "dry_run": dry_run,
                "applied": [outcome.to_json() for outcome in applied],
                "written": written,
                "refused": [{"path": o.path, "reason": o.reason, "set_aside": o.set_aside or None} for o in refusals],
                "rejected": refused and str(refused),
            }
            output.result(json.dumps(said, ensure_ascii=False))
        if refused is not None:
            raise refused


@contextmanager
def _measured(
    metrics: str | None, lineage: str | None, state: str, outcomes: Sequence[Outcome], written: Sequence[str]
) -> Iterator[None]:
    """Write the metrics and the lineage of the run in the block, if files are asked for.

    A run that another one is in the way of, or that was called wrongly, leaves the files of the run before.
    """
    asked = [path for path in (metrics, lineage) if path is not None]
    if not asked:
        yield
        return
    for path in asked:
        if not Path(path).resolve().parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no directory {Path(path).resolve().parent}")
        if Path(path).is_dir():
            raise UsageError(f"cannot write {path}: it is a directory")
    from dynq_cli.session.lineage import write_lineage
    from dynq_cli.session.metrics import RunReport, write_metrics

    began = time.time()

    def report(code: int) -> None:
        done = RunReport(code, time.time(), time.time() - began, outcomes, written)
        if metrics is not None:
            write_metrics(metrics, state, done)
        if lineage is not None:
            write_lineage(lineage, state, done)

    try:
        yield
    except (LockedError, NoStateError, UsageError):
        raise
    except Exception as error:
        with suppress(DynqError):  # what went wrong first is what is said
            report(error.exit_code if isinstance(error, DynqError) else EXIT_RUNTIME)
        raise
    report(0)


def _warn_refused(outcome: Outcome, *, dry_run: bool) -> None:
    """A log that was refused, and where it is now."""
    from dynq_cli.spec.shown import visible

    would = "would be " if dry_run else ""
    where = would + (f"set aside as {visible(outcome.set_aside)}" if outcome.set_aside else "left where it is")
    reason, indent, hint = outcome.reason.partition("\n  ")
    output.warn(
        f"{reason}; {where}{indent}{hint}", code="rejected", path=outcome.path, set_aside=outcome.set_aside or None
    )
