"""`dynq rank`: where a row is in a result."""

from __future__ import annotations

from dynq_cli.cli import options, output


def rank(row: options.Row, query: options.OneQuery = None, state: options.State = ".dynq") -> None:
    """Print the position of a row in `dynq enum --expand`, of a bag that of its first copy; from 1.

    A row that the result does not have is exit code 3. Of a bag, positions count copies, of a set distinct rows. Values
    are as in change logs: numbers or strings for int64 and decimal, ISO dates and times, base64 for binary.
    """
    from dynq_cli.io.results.row import row_of
    from dynq_cli.storage.state import open

    with open(state) as view:
        found = view.rank(row_of(row, view.schema(query)), query)
    output.result(str(found))
