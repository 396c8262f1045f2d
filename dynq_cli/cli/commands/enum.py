"""`dynq enum`: the rows of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress
from dynq_cli.cli.versions import check_version
from dynq_cli.errors import UsageError
from dynq_cli.io.results.forms import Form, form_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_BLOCK = 65536
_SHOWN = 100


def enum(
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    at: options.At = None,
    most: Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="At most N rows.")] = None,
    expand: Annotated[
        bool, typer.Option("--expand", help="Repeat rows as often as they are there, instead of a column _count.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.OutFile = None,
) -> None:
    """Print every distinct row of a result once, that of a bag with its copies in a last column _count.

    The extension of -o FILE chooses the form: .parquet .csv .jsonl .arrow. On a terminal the first rows are shown as
    a table; a pipe and -o - get CSV.
    """
    form = _form(as_json, out)
    from dynq_cli.io.results import copies
    from dynq_cli.io.results.table import text_table
    from dynq_cli.io.results.write import write
    from dynq_cli.storage.state import open

    with open(state) as view:
        check_version(view.version, at)
        schema = view.schema(query)
        batches = view.enum(query, _BLOCK if most is None else min(max(most, 1), _BLOCK))
        check_version(view.version, at)
        if expand:
            batches, schema = copies.expand(batches, schema), copies.expanded_schema(schema)
        batches = copies.limit(batches, most)
        counts = view.counts(query)
        total = counts.rows if expand else counts.distinct
        if form is None:
            shown = text_table(batches, schema, _SHOWN if most is None else most)
            rest = f"\n… {total - shown.rows:,} more rows; use -o FILE or --limit N" if shown.has_more else ""
            output.result(shown.text + rest)
            return
        wanted = total if most is None else min(most, total)
        with Progress("writing", total=wanted) as bar, output.stream(out) as sink:
            rows = write(_watched(batches, bar), schema, sink, form)
        if out is not None and out != "-":
            output.note(f"wrote {rows:,} row{'s' if rows != 1 else ''} to {out}")


def _watched(batches: Iterator[pa.RecordBatch], bar: Progress) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        bar.add(batch.num_rows)


def _form(as_json: bool, out: str | None) -> Form | None:
    """The one form that `--json` and the extension of `-o` ask for; None is a table."""
    if out is None and output.is_terminal() and not as_json:
        return None
    if out is None or out == "-":
        return "jsonl" if as_json else "csv"
    form = form_of(out)
    if as_json and form != "jsonl":
        raise UsageError(f"--json and the extension of {out} ask for two forms: give one of them")
    return form
