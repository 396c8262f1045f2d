"""Data types shared by the modules that read change logs.

paths ─discover→ Group of LogFile ─chunks→ Chunk ─formats→ LogRows
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dynq_cli.errors import DynqError
from dynq_cli.io.data_files import Format
from dynq_cli.values.change_kinds import DELETE, ERASE, INSERT, POSTIMAGE, PREIMAGE, UPSERT

__all__ = [
    "DELETE",
    "ERASE",
    "INSERT",
    "POSTIMAGE",
    "PREIMAGE",
    "UPSERT",
    "BatchId",
    "Chunk",
    "Group",
    "LogFile",
    "LogRows",
    "RawColumn",
]

# A column that is not converted yet: an Arrow array (texts, from a CSV), or Python values (from JSON lines).
RawColumn: TypeAlias = pa.Array | list[Any]


@dataclass(frozen=True)
class BatchId:
    """The batch id of an extracted log: all changes of a source after `start`, up to and including `stop`."""

    source: str
    start: str
    stop: str


@dataclass(frozen=True)
class LogFile:
    """One file. `relation` comes from `--relation`, its name or its directory; None: the rows name it (`_relation`).

    `columns` are the names of a CSV without header line, by position.
    """

    path: str
    format: Format
    relation: str | None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Files that become one version. `path` is as the user wrote it.

    `extractions` are the directories among `path` that a job wrote and finished; the files below each belong together.
    `refused` is why they cannot be read, if that is known from their names; then there are no files.
    """

    path: str
    files: tuple[LogFile, ...]
    extractions: tuple[str, ...] = ()
    refused: DynqError | None = None


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a file, not converted; `first` is the number of the first row, from 1."""

    first: int
    rows: int
    columns: Mapping[str, RawColumn]


@dataclass(frozen=True)
class LogRows:
    """Changes of one relation from one file, in the order of the file.

    - `columns`: the relation's columns that the file has, in Arrow types that `engine.codes.encode` accepts
    - `kinds`: the change kind of each row; `counts`: its copies
    - `commits`: the `_commit_version` of each row; None if the file has none
    - `numbers`: row numbers in the file, from 1, without the header of a CSV
    - `order`: sort keys of each row within a commit, the most significant first; None for the order of the file
    """

    relation: str
    columns: Mapping[str, pa.Array]
    kinds: NDArray[np.int8]
    counts: NDArray[np.int64]
    commits: NDArray[np.int64] | None
    numbers: NDArray[np.int64]
    order: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.kinds)

    def only(self, rows: NDArray[np.int64]) -> LogRows:
        """Select rows by their numbers from 0, in the order given."""
        taken = pa.array(rows)
        return LogRows(
            self.relation,
            {name: column.take(taken) for name, column in self.columns.items()},
            self.kinds[rows],
            self.counts[rows],
            None if self.commits is None else self.commits[rows],
            self.numbers[rows],
            None if self.order is None else self.order[rows],
        )
