"""The sizes of an engine's tables as plain numbers: small enough for a manifest, and read without numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynq_cli.records import record

# The names of a snapshot's arrays that hold dictionaries begin with this.
VALUES = "values."


@record(frozen=True)
class RelationSize:
    """Distinct rows, rows with their copies, and bytes of the base table."""

    rows: int
    copies: int
    length: int


@record(frozen=True)
class QuerySize:
    """Bytes of the tables that only this query needs, and rows of the results that it stores: groups and joins."""

    length: int
    stored: int


@record(frozen=True)
class TableSizes:
    """Bytes in use; `shared` are those of tables that several queries need."""

    relations: Mapping[str, RelationSize]
    queries: Mapping[str, QuerySize]
    shared: int
    dictionaries: int

    @classmethod
    def of(cls, read: dict[str, Any]) -> TableSizes:
        """The sizes that JSON holds."""
        relations = {name: RelationSize(**size) for name, size in read.pop("relations").items()}
        queries = {name: QuerySize(**size) for name, size in read.pop("queries").items()}
        return cls(relations, queries, **read)
