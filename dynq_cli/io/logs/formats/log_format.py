"""The interface of a change-log format: recognise it by columns, and translate rows to changes.

    names of columns ─detect→ LogFormat ─translate→ ChangeRows: rows with their change kinds

A format does not convert types or check for missing columns: `formats.rows` does that for all formats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.columns import take
from dynq_cli.io.logs.model import RawColumn
from dynq_cli.spec.model import Relation
from dynq_cli.spec.types import Type

# How likely a file is in a format, by its columns. Common names such as `op` are not conclusive.
NO, INSERTS_ONLY, LIKELY, SURE = range(4)

# The kind of a row without a change: a tombstone, a progress message, a weight of 0.
SKIP = -1


@dataclass(frozen=True)
class Rows:
    """Rows of one file, not converted, with their numbers in the file.

    `names` are the columns that the file has, of which `columns` may be some. `is_text` says that all values are
    texts, as in a CSV; `is_json` that a key left out of a row is NULL; `is_whole` that the file is a whole relation, in
    which a deleted row is absent. `schemas` has what Kafka Connect says about
    each row, where it does.
    """

    path: str
    names: frozenset[str]
    columns: Mapping[str, RawColumn]
    numbers: NDArray[np.int64]
    is_text: bool = False
    is_json: bool = False
    is_whole: bool = False
    schemas: Sequence[Any] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def pick(self, rows: NDArray[np.int64]) -> Rows:
        """Select rows by index."""
        schemas = None if self.schemas is None else [self.schemas[i] for i in rows]
        columns = {name: take(column, rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, numbers=self.numbers[rows], schemas=schemas)

    def rejected(self, row: int, column: str, message: str, hint: str = "") -> RejectedError:
        """Return the error for a value, by the index of its row."""
        return RejectedError.in_row(self.path, int(self.numbers[row]), column, message, hint)

    def lacks(self, column: str, hint: str) -> RejectedError:
        """Return the error for a column that is missing in the file."""
        return self.refused(f"column {column} is missing", hint)

    def refused(self, message: str, hint: str) -> RejectedError:
        """Return the error for a file as a whole."""
        return RejectedError(f"{self.path}: {message}\n  hint: {hint}")


# Converts the values of a column for `columns.typed`; may raise CodeError.
Prepare = Callable[[str, RawColumn, Type], RawColumn]


def as_they_are(name: str, values: RawColumn, kind: Type) -> RawColumn:
    """Return the values unchanged."""
    return values


@dataclass(frozen=True)
class ChangeRows:
    """Rows of one relation with their change kinds: INSERT … UPSERT, or SKIP. `counts` are copies, by default 1.

    `fillers`: deletes may have zeros and empty texts outside the key, if the source knew only the key. `order` has the
    sort keys of each row (`formats.order`); None for the order of the file.
    """

    rows: Rows
    kinds: NDArray[np.int8]
    counts: NDArray[np.int64] | None = None
    prepare: Prepare = as_they_are
    fillers: bool = False
    order: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class LogFormat:
    """A format of change logs.

    - `detect(free, names)`: how likely the format is; `free` are the columns that no relation declares
    - `meta`: the columns that it reads besides those of the relation
    - `order`: the first of these columns that a file has numbers its commits; with `continues`, across files
    - `sorts`: the columns that order rows within a commit; like those of `order`, they must be in the first rows
    - `nested`: the columns of the relation are inside other columns
    - `says_deletes(names)`: whether a file with these columns can contain deletes
    - `can_be_whole(free)`: whether a file with these columns can contain a whole relation, for `--replace`
    - `tables`: the relation of each row, for files whose name is no relation; None if rows do not name one
    """

    name: str
    detect: Callable[[Collection[str], Collection[str]], int]
    translate: Callable[[Rows, Relation], Iterator[ChangeRows]]
    meta: tuple[str, ...] = ()
    order: tuple[str, ...] = ("_commit_version",)
    continues: bool = True
    sorts: tuple[str, ...] = ()
    tables: Callable[[Rows], tuple[str, RawColumn] | None] = lambda rows: None
    nested: bool = False
    says_deletes: Callable[[Collection[str]], bool] = lambda names: True
    can_be_whole: Callable[[Collection[str]], bool] = lambda free: False
