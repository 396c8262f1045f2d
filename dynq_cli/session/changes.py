"""Write differences of a result as files that another state can apply.

    with_batch(schema, state, query, since, until)     add the batch id to the schema of a file
    Spool                                              collect the differences of several versions in one file

The batch id names the state, the query, and the versions before and after. A state that applies such files applies each
change once, and refuses overlapping ones.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.logs.identity import METADATA_KEY
from dynq_cli.io.results.forms import Form, Sink
from dynq_cli.io.results.multiplicity import has_counts
from dynq_cli.io.results.write import write
from dynq_cli.storage.state import State

COMMIT = "_commit_version"


def with_batch(schema: pa.Schema, state: State, query: str | None, since: int, until: int) -> pa.Schema:
    """Add the batch id of a difference to a schema's metadata; return the schema as it is if the versions are equal."""
    if since == until:
        return schema
    batch = {"source": source_of(state, query), "from": since, "to": until}
    return schema.with_metadata({**(schema.metadata or {}), METADATA_KEY: json.dumps(batch).encode()})


def source_of(state: State, query: str | None) -> str:
    """Return the source of a result's batches: constant for a state and query, and unique among states."""
    return f"dynq:{state.identity}:{query if query is not None else state.queries[0]}"


class Spool:
    """Collects the differences of consecutive versions in a temporary file; then writes them as one file.

    Several versions are written in order, with a column `_commit_version`. The temporary file is in `folder`, or in the
    system's directory, and has no name.
    """

    def __init__(self, state: State, query: str | None, folder: Path | None = None) -> None:
        self._state, self._query = state, query
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, closed by __exit__
        self._writer: Any = None
        self._since = self._until = state.version
        self._versions: list[int] = []  # of each batch
        self._telling = state.telling([query if query is not None else state.queries[0]])

    def __enter__(self) -> Spool:
        self._telling.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._telling.__exit__(kind, error, at)
        self._file.close()

    def add(self, version: int) -> None:
        """Add the difference that made `version`, the one in force: it was read within its commits. O(changed rows)."""
        try:
            read = self._state.diff(self._query, version - 1)
            if self._writer is None:
                self._since = read.since
                self._writer = pa.ipc.new_stream(self._file, read.schema)
            for batch in read.batches:
                self._writer.write_batch(batch)
                self._versions.append(version)
        except (RejectedError, OSError) as error:
            raise DynqError(
                f"the state is at version {version}, but its changes cannot be written: {error}\n"
                f"  hint: `dynq diff --since {self._since}` reads it"
            ) from error
        self._until = version

    def write(self, sink: Sink, form: Form) -> int:
        """Write all versions added; return the number of rows. If none was added, write a file without rows."""
        if self._writer is None:
            schema = self._state.diff(self._query, self._state.version).schema
            return write(iter(()), schema, sink, form)
        self._writer.close()
        self._file.seek(0)
        reader = pa.ipc.open_stream(self._file)
        schema, batches = reader.schema, iter(reader)
        if self._until - self._since > 1:
            schema, batches = _with_commits(schema), self._numbered(reader)
        schema = with_batch(schema, self._state, self._query, self._since, self._until)
        return write(batches, schema, sink, form)

    def _numbered(self, reader: Any) -> Iterator[pa.RecordBatch]:
        schema, at = _with_commits(reader.schema), _commits_at(reader.schema)
        for batch, version in zip(reader, self._versions, strict=True):
            columns = list(batch.columns)
            columns.insert(at, pa.repeat(pa.scalar(version, pa.int64()), batch.num_rows))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_commits(schema: pa.Schema) -> pa.Schema:
    return schema.insert(_commits_at(schema), pa.field(COMMIT, pa.int64(), False))


def _commits_at(schema: pa.Schema) -> int:
    """Return the index of `_commit_version`: after `_change_type` and before `_count`, which stays last."""
    return len(schema) - has_counts(schema)
