"""`dynq extract stream`: change logs that arrive in a directory, into a state."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.commands.extract.options import ConfOption
from dynq_cli.cli.ending import terminable
from dynq_cli.cli.rows import row_counts_text
from dynq_cli.errors import UsageError

if TYPE_CHECKING:
    from dynq_cli.session.apply_logs import Outcome

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def stream(
    path: Annotated[
        str, typer.Argument(metavar="IN", help="The directory in which change logs arrive.", show_default=False)
    ],
    state: options.State = ".dynq",
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that is there is applied. [unless --every is given]")
    ] = False,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="Go on, and look so often: 10s, 5m, 1h.")
    ] = None,
    relation: Annotated[
        str | None, typer.Option("--relation", metavar="NAME", help="The relation of all files.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="The format of all files, instead of detecting it.")
    ] = None,
    upsert: Annotated[bool, typer.Option("--upsert", help="Inserts replace rows of the same key.")] = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the stream is called. [the name of IN]")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="DIR", help="Where the stream keeps its place. [STATE.streams/NAME]"),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="An option of Spark's file stream, as maxFilesPerTrigger=100."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be applied of what is there, and change nothing.")
    ] = False,
    conf: ConfOption = None,
) -> None:
    """Apply change logs that arrive in a directory to a state, each exactly once.

    Files that arrive together become one version. They have to appear whole (write them under a hidden name, then
    rename), and must not change. The command may be killed at any moment, and goes on when it is started again. A log
    that is refused ends it, exit code 3: mend the file in its place, and start it again.
    """
    from dynq_cli.spark.check import require

    if once and every is not None:
        raise UsageError("--once and --every do not go together")
    if dry_run and every is not None:
        raise UsageError("--dry-run looks once, so it does not go together with --every")
    interval = None if every is None else _duration(every)
    require()
    from dynq_cli.session.apply_logs import Options, apply_logs
    from dynq_cli.spark.program import pairs
    from dynq_cli.spark.session import get_session
    from dynq_cli.spark.stream import StreamJob, extract_stream, rehearse_stream
    from dynq_cli.storage.state import open as open_state

    open_state(state).close()  # said before Spark is started, if there is none
    name = name or os.path.basename(os.path.abspath(path))
    how = Options(relation=relation, form=form, upsert=upsert, dry_run=dry_run)

    def tell(outcome: Outcome) -> None:
        if outcome.version is not None:
            said = row_counts_text(outcome.inserted, outcome.replaced, outcome.deleted)
            output.note(f"{'would be ' if dry_run else ''}version {outcome.version}: {said}")
        for warning in outcome.warnings:
            output.warn(warning)

    def apply(folder: str) -> None:
        with open_state(state) as view:
            apply_logs(view, [folder], how, tell=tell, warn=output.warn)

    job = StreamJob(
        path=path,
        state=state,
        name=name,
        work=checkpoint or os.path.join(f"{state.rstrip('/')}.streams", name),
        every=interval,
        options=pairs("--option", option or []),
    )
    output.detail("starting Spark")
    with terminable():
        spark = get_session(pairs("--conf", conf or []), quiet=not output.settings.verbose)
        if dry_run:
            found, left = rehearse_stream(spark, job, apply)
            if left:
                output.warn(f"{path}: {left:,} files wait behind a batch that was interrupted, and were not looked at")
            output.note(f"{path}: the next batch would be applied" if found else f"{path}: nothing new")
            return
        many = extract_stream(spark, job, apply)
    output.note(f"{path}: {many:,} {'batch' if many == 1 else 'batches'} applied" if many else f"{path}: nothing new")


def _duration(text: str) -> str:
    """A duration as Spark writes it.

    >>> _duration("5m")
    '5 minutes'
    """
    found = re.fullmatch(r"([1-9]\d{0,8})([smhd])", text)
    if found is None:
        raise UsageError(f"--every {text}: write seconds, minutes, hours or days: 10s, 5m, 1h, 1d")
    return f"{found[1]} {_UNITS[found[2]]}"
