"""The sizes of an engine's tables as plain numbers, for the manifest; numpy is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynq_cli.records import record

# The names of a snapshot's arrays that hold dictionaries begin with this.
VALUES = "values."


@record(frozen=True)
class RelationSize:
    """A base table: distinct rows, rows counting copies, and bytes."""

    rows: int
    copies: int
    length: int


@record(frozen=True)
class QuerySize:
    """A query: bytes of the tables that only it uses, and rows of its stored derived relations: groups and joins."""

    length: int
    stored: int


@record(frozen=True)
class TableSizes:
    """The sizes of all tables; `shared` are the bytes of tables that several queries use."""

    relations: Mapping[str, RelationSize]
    queries: Mapping[str, QuerySize]
    shared: int
    dictionaries: int

    @classmethod
    def of(cls, read: dict[str, Any]) -> TableSizes:
        """Build from JSON."""
        relations = {name: RelationSize(**size) for name, size in read.pop("relations").items()}
        queries = {name: QuerySize(**size) for name, size in read.pop("queries").items()}
        return cls(relations, queries, **read)
