"""What a format of change logs is: how its columns give it away, and what its rows say.

    names of columns ─detect→ LogFormat ─translate→ ChangeRows: each row with the kind of change it is

A form knows neither types nor missing columns: those are the same for all of them (`formats.rows`).
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

# How sure the columns of a file make that it is in a form. Names such as `op` may be anybody's.
NO, INSERTS_ONLY, LIKELY, SURE = range(4)

# The kind of a row that says nothing: a tombstone, a note of progress, a weight of 0.
SKIP = -1


@dataclass(frozen=True)
class Rows:
    """Rows of one file as they stand in it, with their numbers in the file.

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
        """Some of the rows, in the order of their indices."""
        schemas = None if self.schemas is None else [self.schemas[i] for i in rows]
        columns = {name: take(column, rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, numbers=self.numbers[rows], schemas=schemas)

    def rejected(self, row: int, column: str, message: str, hint: str = "") -> RejectedError:
        """The error for a value, by the index of its row."""
        text = f"{self.path}: row {self.numbers[row]}, column {column}: {message}"
        return RejectedError(f"{text}\n  hint: {hint}" if hint else text)

    def lacks(self, column: str, hint: str) -> RejectedError:
        """The error for a column that the whole file lacks."""
        return self.refused(f"column {column} is missing", hint)

    def refused(self, message: str, hint: str) -> RejectedError:
        """The error for a file as a whole."""
        return RejectedError(f"{self.path}: {message}\n  hint: {hint}")


# Values of a column as its file holds them → the same values as `columns.typed` reads them; may raise CodeError.
Prepare = Callable[[str, RawColumn, Type], RawColumn]


def as_they_are(name: str, values: RawColumn, kind: Type) -> RawColumn:
    """Nothing to prepare: the values mean what they are."""
    return values


@dataclass(frozen=True)
class ChangeRows:
    """Rows of one relation and what each says: INSERT … UPSERT or SKIP; `counts` are copies, 1 unless given.

    `fillers` tells that deletes may hold zeros and empty texts where their source knew only the key. `order` has the
    sort keys of each row (`formats.order`), where the order is not that of the file.
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

    - `detect(free, names)`: how sure the columns make it; `free` are those that no relation declares as its own
    - `meta`: the columns that it reads beside those of the relation
    - `order`: the first of these that a file has numbers its commits; with `continues`, from one file to the next
    - `sorts`: the columns that say the order of rows within a commit; like `order`, no file may begin to have one late
    - `nested`: the columns of the relation are inside others
    - `says_deletes(names)`: whether a file with these columns can say that a row went
    - `can_be_whole(free)`: whether a file with these columns can be a whole relation, as `--replace` takes it
    - `tables`: the relation that each row names, for files that are named after none; None where rows do not say
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
