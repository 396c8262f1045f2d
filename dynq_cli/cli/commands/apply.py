"""`dynq apply`: change logs into a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dynq_cli.cli import output
from dynq_cli.cli.progress import Progress
from dynq_cli.cli.rows import row_counts_text, say_written
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.results.forms import Form, form_of
from dynq_cli.lazy import Lazy

if TYPE_CHECKING:
    import typer

    from dynq_cli.cli import options
    from dynq_cli.session.apply_logs import Outcome
else:
    typer, options = Lazy("typer"), Lazy("dynq_cli.cli.options")


_FORMAT_HELP = (
    "The format of all files, instead of detecting it: canonical, delta, iceberg, debezium, debezium-flat, flink, dms, "
    "weights, fivetran, airbyte, hudi, maxwell, sqlserver, snowflake, bigquery or snapshot."
)


class MissingDelete(StrEnum):
    fail = "fail"
    skip = "skip"


def apply(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Change logs, or directories of them, by name.", show_default=False),
    ] = None,
    state: options.State = ".dynq",
    atomic: Annotated[bool, typer.Option("--atomic", help="All files are one version.")] = False,
    upsert: Annotated[bool, typer.Option("--upsert", help="Inserts replace rows of the same key.")] = False,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="REL=PATH", help="The file is the whole relation; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    relation: Annotated[
        str | None, typer.Option("--relation", metavar="NAME", help="The relation of all files.")
    ] = None,
    form: Annotated[str | None, typer.Option("--format", metavar="FORMAT", help=_FORMAT_HELP)] = None,
    allow_replay: Annotated[
        bool, typer.Option("--allow-replay", help="Skip rows of a _commit_version that was applied before.")
    ] = False,
    on_missing_delete: Annotated[
        MissingDelete, typer.Option("--on-missing-delete", help="What to do with a delete of a row that is not there.")
    ] = MissingDelete.fail,
    diff: Annotated[
        str | None,
        typer.Option("--diff", metavar="FILE", help="Write what came and went in a result; - is stdout, as CSV."),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="NAME", help="The query of --diff; not needed where the spec has one."),
    ] = None,
    now: options.Now = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Apply change logs in the order given: each file is a version.

    An extraction directory is one version, too. A log that was applied before is skipped. At the first that is rejected
    it stops with exit code 3; the versions before it are kept.

    --replace REL=PATH takes a full dump instead: its difference to the relation is applied, and all replaces are one
    version. Where nothing changed no version is made. --replace PATH goes by the file's name.

    --diff FILE is a change log as of dynq diff; if several versions were made, a column _commit_version has the version
    that each change belongs to. It is about the versions that were made, also if a log after them was rejected.
    """
    _check_replace(
        paths or (),
        replace or (),
        {
            "--upsert": upsert,
            "--atomic": atomic,
            "--relation": relation is not None,
            "--allow-replay": allow_replay,
            "--on-missing-delete": on_missing_delete is not MissingDelete.fail,
        },
    )
    diff_form = _diff_form(diff, query, dry_run=dry_run, as_json=as_json)
    from dynq_cli.session.apply_logs import Options, apply_logs
    from dynq_cli.spec.clock import moment
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
    with ExitStack() as stack:
        # The line goes last: leaving the state may write a snapshot.
        bar, view = stack.enter_context(Progress("applying")), stack.enter_context(open(state))
        view.now = None if now is None else moment(now)
        spool = None
        if diff is not None:
            from dynq_cli.session.changes import Spool

            # What is wrong with the query, or with FILE, is said before anything is applied.
            view.require("diff", query)
            sink = stack.enter_context(output.stream(diff))
            folder = None if diff == "-" else Path(diff).resolve().parent
            spool = stack.enter_context(Spool(view, query, folder))

        def tell(outcome: Outcome) -> None:
            bar.hide()
            done.append(outcome)
            for warning in outcome.warnings:
                output.warn(warning)
            output.note(described(outcome, dry_run=dry_run))
            if spool is not None and outcome.version is not None:
                spool.add(outcome.version)

        refused = None
        try:
            if replace:
                from dynq_cli.session.replace import replace_relations

                tell(replace_relations(view, replace, form=form, dry_run=dry_run, progress=bar.add, warn=output.warn))
            else:
                apply_logs(view, paths or (), asked, tell, bar.add, output.warn)
        except RejectedError as error:
            refused = error
        version = view.version
        rows = spool.write(sink, diff_form) if spool is not None else 0
    if diff is not None:
        say_written(rows, diff)
    if as_json:
        import json

        applied = [outcome.to_json() for outcome in done]
        said = {"version": version, "dry_run": dry_run, "applied": applied, "rejected": refused and str(refused)}
        output.result(json.dumps(said, ensure_ascii=False))
    if refused is not None:
        raise refused


def _check_replace(paths: Sequence[str], replace: Sequence[str], others: Mapping[str, bool]) -> None:
    """UsageError unless there is something to apply, and `--replace` stands without what is about logs."""
    if not paths and not replace:
        raise UsageError("what is to be applied? Name change logs, or a full dump with --replace RELATION=PATH")
    if replace and paths:
        raise UsageError(f"--replace takes full dumps and PATH change logs: apply {paths[0]} by itself")
    wrong = [name for name, is_given in others.items() if is_given]
    if replace and wrong:
        raise UsageError(f"{wrong[0]} is about change logs, and --replace takes full dumps: leave one of them out")


def _diff_form(diff: str | None, query: str | None, *, dry_run: bool, as_json: bool) -> Form:
    """The form of what `--diff` writes; UsageError if options do not go together."""
    if diff is None and query is not None:
        raise UsageError("--query says whose changes --diff FILE writes: give both, or none")
    if diff is not None and dry_run:
        raise UsageError("--dry-run changes nothing, so there is nothing for --diff to write: give one of them")
    if diff == "-" and as_json:
        raise UsageError("--json and --diff - both go to stdout: write --diff FILE")
    return "csv" if diff is None or diff == "-" else form_of(diff)


def described(outcome: Outcome, *, dry_run: bool = False) -> str:
    """What became of a log, in a line."""
    if outcome.version is None and outcome.form:
        return f"{outcome.path}: {outcome.reason}"
    if outcome.version is None:
        return f"{outcome.path}: skipped, {outcome.reason}"
    parts = [row_counts_text(outcome.inserted, outcome.replaced, outcome.deleted)]
    if outcome.skipped_deletes:
        parts.append(f"{_number(outcome.skipped_deletes, 'delete')} of rows that are not there skipped")
    if outcome.replayed:
        parts.append(f"{_number(outcome.replayed, 'row')} of earlier commits skipped")
    would = "would be " if dry_run else ""
    return f"{outcome.path}: {would}version {outcome.version}, {', '.join(parts)} ({outcome.form})"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
