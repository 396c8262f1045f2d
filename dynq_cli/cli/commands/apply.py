"""`dynq apply`: change logs into a state."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import RejectedError

if TYPE_CHECKING:
    from dynq_cli.session.take_in import Outcome


class MissingDelete(StrEnum):
    fail = "fail"
    skip = "skip"


def apply(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Change logs, or directories of them, by name.", show_default=False),
    ],
    state: options.State = ".dynq",
    atomic: Annotated[bool, typer.Option("--atomic", help="All files are one version.")] = False,
    upsert: Annotated[bool, typer.Option("--upsert", help="Inserts replace rows of the same key.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    relation: Annotated[
        str | None, typer.Option("--relation", metavar="NAME", help="The relation of all files.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="The format of all files, instead of detecting it.")
    ] = None,
    allow_replay: Annotated[
        bool, typer.Option("--allow-replay", help="Skip rows of a _commit_version that was applied before.")
    ] = False,
    on_missing_delete: Annotated[
        MissingDelete, typer.Option("--on-missing-delete", help="What to do with a delete of a row that is not there.")
    ] = MissingDelete.fail,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Apply change logs in the order given: each file is a version.

    An extraction directory is one version, too. A log that was applied before is skipped. At the first that is rejected
    it stops with exit code 3; the versions before it are kept.
    """
    from dynq_cli.session.take_in import Options, take_in
    from dynq_cli.storage.state import open

    asked = Options(
        relation=relation,
        form=form,
        atomic=atomic,
        upsert=upsert,
        dry_run=dry_run,
        allow_replay=allow_replay,
        skip_missing_deletes=on_missing_delete is MissingDelete.skip,
    )
    done: list[Outcome] = []
    with open(state) as view, Progress("applying") as bar:

        def tell(outcome: Outcome) -> None:
            bar.hide()
            done.append(outcome)
            for warning in outcome.warnings:
                output.warn(warning)
            output.note(described(outcome, dry_run=dry_run))

        refused = None
        try:
            take_in(view, paths, asked, tell, bar.add)
        except RejectedError as error:
            refused = error
        version = view.version
    if as_json:
        import json

        applied = [outcome.to_json() for outcome in done]
        said = {"version": version, "dry_run": dry_run, "applied": applied, "rejected": refused and str(refused)}
        output.result(json.dumps(said, ensure_ascii=False))
    if refused is not None:
        raise refused


def described(outcome: Outcome, *, dry_run: bool = False) -> str:
    """What became of a log, in a line."""
    if outcome.version is None:
        return f"{outcome.path}: skipped, {outcome.reason}"
    parts = [_number(outcome.inserts, "insert"), _number(outcome.deletes, "delete")]
    if outcome.skipped_deletes:
        parts.append(f"{_number(outcome.skipped_deletes, 'delete')} of rows that are not there skipped")
    if outcome.replayed:
        parts.append(f"{_number(outcome.replayed, 'row')} of earlier commits skipped")
    would = "would be " if dry_run else ""
    return f"{outcome.path}: {would}version {outcome.version}, {', '.join(parts)} ({outcome.form})"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
