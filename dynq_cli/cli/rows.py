"""Write rows to a file or stdout, or print them as a table."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from dynq_cli.cli import output
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import UsageError
from dynq_cli.io.results.forms import Form, form_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

SHOWN = 100


def asked_form(as_json: bool, out: str | None) -> Form | None:
    """Return the format of `--json` or of the extension of `-o`; None for a table."""
    if out is None and output.is_terminal() and not as_json:
        return None
    if out is None or out == "-":
        return "jsonl" if as_json else "csv"
    form = form_of(out)
    if as_json and form != "jsonl":
        raise UsageError(f"--json and the extension of {out} ask for two forms: give one of them")
    return form


def show_rows(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    most: int = SHOWN,
    total: int | None = None,
    hint: str = "use -o FILE",
) -> None:
    """Print the first rows as a table, and a hint how to get the others, of `total` if known."""
    from dynq_cli.io.results.table import text_table

    shown = text_table(batches, schema, most, shutil.get_terminal_size().columns)
    more = "" if total is None else f"{total - shown.rows:,} "
    rest = [f"{more}more rows"] if shown.has_more else []
    if shown.left_out:
        rest.append(f"{shown.left_out:,} more column{'s' if shown.left_out > 1 else ''}")
    output.result(shown.text + (f"\n… {' and '.join(rest)}; {hint}" if rest else ""))


def write_rows(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, out: str | None, form: Form, total: int | None = None
) -> None:
    """Write all rows; on return they are durable in the file, or written to stdout."""
    from dynq_cli.io.results.write import write

    with Progress("writing", total=total) as bar, output.stream(out) as sink:
        rows = write(_watched(batches, bar), schema, sink, form)
    say_written(rows, out)


def say_written(rows: int, out: str | None) -> None:
    """Say how many rows a file has."""
    if out is not None and out != "-":
        output.note(f"wrote {rows:,} row{'s' if rows != 1 else ''} to {out}")


def row_counts_text(inserted: int, replaced: int | None, deleted: int) -> str:
    """How many rows a log inserted, replaced and deleted; `replaced` is None where it was not counted apart.

    >>> row_counts_text(1200, 3, 0)
    '1,200 inserted, 3 replaced, 0 deleted'
    """
    if replaced is None:
        return f"{inserted:,} inserted or replaced, {deleted:,} deleted or replaced"
    return f"{inserted:,} inserted, {replaced:,} replaced, {deleted:,} deleted"


def _watched(batches: Iterator[pa.RecordBatch], bar: Progress) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        bar.add(batch.num_rows)
