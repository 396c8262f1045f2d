"""`dynq diff`: what came and went in a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import completion, options, output
from dynq_cli.cli.rows import asked_form, show_rows, write_rows
from dynq_cli.errors import LockedError, RejectedError, UsageError

if TYPE_CHECKING:
    from dynq_cli.storage.state import State


def diff(
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="V",
            help="Since version V, a number or a mark; since before the last apply where it is not given.",
            autocompletion=completion.marks,
        ),
    ] = None,
    advance: Annotated[
        bool, typer.Option("--advance", help="Move the mark of --since to the version that was read, when all is out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print what came and went in a result, as a change log that another state can apply.

    The columns of the result, then _change_type: insert or delete. Of a bag a last column _count has the copies that
    came or went: from 2 to 5 copies is an insert of 3. Of a set there are rows.

    Parquet and Arrow files say which versions they are about, so that another state applies each change once. On a
    terminal the first rows are shown as a table, with --advance all as CSV; a pipe and -o - get CSV.
    """
    form = asked_form(as_json, out)
    if advance:
        form = form or "csv"  # a table would be cut
        if since is None or since.isdecimal():
            raise UsageError("--advance moves a mark: name it with --since MARK\n  hint: `dynq mark NAME` makes one")
    from dynq_cli.session.changes import with_batch
    from dynq_cli.storage.lock import writing_to
    from dynq_cli.storage.state import open

    with open(state) as view:
        if advance:
            with writing_to(Path(state)):  # another writer is met before anything is written
                pass
        read = view.diff(query, since)
        if form is None:
            show_rows(read.batches, read.schema)
            return
        schema = with_batch(read.schema, view, query, read.since, read.until)
        write_rows(read.batches, schema, out, form)
        if advance and read.until > read.since:
            assert since is not None
            _advance(view, since, read.since, read.until)


def _advance(view: State, mark: str, since: int, until: int) -> None:
    """Move a mark that is still where it was."""
    found = view.marks.get(mark)
    if found != since:
        where = "gone" if found is None else f"at version {found:,}"
        raise RejectedError(f"the mark {mark} was moved meanwhile: it is {where}, and is left as it is")
    try:
        view.mark(mark, until)
    except LockedError as error:
        raise LockedError(f"the changes are written, but the mark {mark} is not moved: {error}") from None
    output.note(f"moved the mark {mark} from version {since:,} to {until:,}")
