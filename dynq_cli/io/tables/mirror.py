"""A table of another system that is kept equal to a result.

    with open_mirror(to, table) as mirror:
        stamp = mirror.stamp()                          which version the table holds; None if there is no table yet
        mirror.load(schema, batches, stamp)             make the table these rows
        mirror.change(schema, batches, stamp)           or: change it by a delta, as `dynq diff` writes it

The stamp is committed in one transaction with the rows: so a mirror that was killed at any moment holds the version of
its stamp, and a delta is applied once. `stamp` notices whether anybody else has changed the table since.

A row of a bag stands in the table once, with its copies in `_count`, as in `dynq enum`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Protocol

import pyarrow as pa

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.spec.mirror_kinds import find, without_password

COPIES, KIND = "_count", "_change_type"


@dataclass(frozen=True)
class Stamp:
    """What a table holds: the version of a query of a state, and when that version was made, in microseconds."""

    state: str
    query: str
    version: int
    made: int

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Stamp:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Written:
    """How many rows of a table went, and how many came; a row whose copies changed did both."""

    deleted: int
    inserted: int


class Mirror(Protocol):
    """See the module."""

    def stamp(self) -> Stamp | None:
        """Return what the table holds; lock it until the end. TouchedError if anybody else has changed it."""
        ...

    def load(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        """Make the table these rows and columns, and commit. O(rows of the result, and of the table)."""
        ...

    def change(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        """Change the table by a delta with the columns of `dynq diff`, and commit. TouchedError if it does not fit."""
        ...


class TouchedError(RejectedError):
    """A table that is not what the last run left."""

    code = "mirror-touched"

    @classmethod
    def at(cls, place: str, what: str) -> TouchedError:
        return cls(
            f"{place}: {what}; nothing was written to it\n"
            "  hint: to have it anew, drop the table, and `dynq run` loads it again; or mirror to another table"
        )


def open_mirror(to: str, table: str) -> AbstractContextManager[Mirror]:
    """Open the table of a mirror. DynqError if the other system cannot be reached, or its library is not installed."""
    kind = find(to)
    assert kind is not None, to
    opened: AbstractContextManager[Mirror] = import_module(kind.module).open_mirror(to, table)
    return opened


def not_installed(library: str, extra: str, wanted: str) -> DynqError:
    return UsageError(
        f"{wanted} needs the package {library}, which is not installed\n  hint: pip install 'dynq-cli[{extra}]'"
    )


def place_of(to: str, table: str) -> str:
    """How messages name a mirror."""
    return f"{table} in {without_password(to)}" if table else without_password(to)


def is_bag(schema: pa.Schema) -> bool:
    return bool(schema.names[-1:] == [COPIES])


def value_columns(schema: pa.Schema) -> list[str]:
    """The columns of a result or delta without copies and change types. UsageError if there is none."""
    names = [name for i, name in enumerate(schema.names) if not _is_mark(schema, i)]
    if not names:
        raise UsageError("a result without columns has no table; mirror a query with a column, or use `kind: count`")
    return names


def _is_mark(schema: pa.Schema, i: int) -> bool:
    last = len(schema) - 1
    if is_bag(schema):
        return i == last or (i == last - 1 and schema.names[i] == KIND)
    return i == last and schema.names[i] == KIND
