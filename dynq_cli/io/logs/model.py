"""What the modules of change logs hand to each other.

paths ─discover→ Group of LogFile ─chunks→ Chunk ─forms→ LogRows
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

# A column as its file holds it: an Arrow array (of a CSV: texts), or, of JSON lines, Python values.
RawColumn: TypeAlias = pa.Array | list[Any]


@dataclass(frozen=True)
class BatchId:
    """What a log that was extracted says about itself: everything of a source after `start` up to `stop`."""

    source: str
    start: str
    stop: str


@dataclass(frozen=True)
class LogFile:
    """One file. `relation` is what `--relation`, its name or its directory says; None leaves it to `_relation`.

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
    """Some rows of a file, as they stand in it; `first` is the number of the first one, from 1."""

    first: int
    rows: int
    columns: Mapping[str, RawColumn]


@dataclass(frozen=True)
class LogRows:
    """Changes of one relation from one file, in the order of the file.

    `columns` are those of the relation that the file has, in Arrow types that `engine.codes.encode` takes; a
    column that the relation has and the file does not is not there. `kinds` has INSERT … UPSERT per row,
    `counts` the copies, `commits` the `_commit_version` where the file has one. `numbers` are the rows' numbers
    in the file, from 1, the header of a CSV not counted. `order` has the sort keys of each row within a commit, the
    first the most significant, where the order is not that of the file.
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
