"""Reading the change logs of a workload, in the order in which they are to be applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Commit = dict[str, pa.Table]


@dataclass(frozen=True)
class Log:
    relation: str
    chunk: int
    path: Path

    def table(self) -> pa.Table:
        """As a command reads it: `read_table` would import Arrow's datasets first, and pandas."""
        with pq.ParquetFile(self.path) as file:
            return file.read()


def logs_in(folder: Path) -> list[Log]:
    """All logs, chunk by chunk."""
    found = [Log(*_parts(path), path) for path in folder.glob("*.parquet")]
    return sorted(found, key=lambda log: (log.chunk, log.relation))


def _parts(path: Path) -> tuple[str, int]:
    relation, chunk, _ = path.name.split(".")
    return relation, int(chunk)


def slices(relation: str, table: pa.Table, size: int) -> Iterator[Commit]:
    """The table in commits of `size` changes; whole for 0."""
    for start in range(0, len(table), size or max(1, len(table))):
        yield {relation: table.slice(start, size or len(table))}


def mixed(tables: Commit, many: int, size: int) -> list[Commit]:
    """`many` changes drawn from the tables of one chunk, in random order, in commits of `size`.

    Any order will do within a chunk: it deletes rows of earlier chunks only.
    """
    names = list(tables)
    which = np.repeat(np.arange(len(names)), [len(t) for t in tables.values()])
    row = np.concatenate([np.arange(len(t)) for t in tables.values()])
    drawn = np.random.default_rng(1).permutation(len(row))[:many]
    commits = []
    for start in range(0, len(drawn), size):
        part = drawn[start : start + size]
        mine = {n: row[part[which[part] == i]] for i, n in enumerate(names)}
        commits.append({n: tables[n].take(rows) for n, rows in mine.items() if len(rows)})
    return commits


def changes_in(folder: Path) -> Commit:
    """The logs of one commit, `RELATION.*.parquet`, in memory."""
    return {path.name.split(".")[0]: pq.ParquetFile(path).read() for path in sorted(folder.iterdir())}


def base_rows(table: pa.Table) -> int:
    """By how many rows a log makes its relation longer."""
    inserts = pc.sum(pc.equal(table["_change_type"], "insert")).as_py() or 0
    return 2 * int(inserts) - len(table)
