"""The manifest's record of the ledger: committed length, checksum, indexes. Its size is O(log entries)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynq_cli.records import record

LEDGER = "ledger"


def index_name(number: int) -> str:
    return f"ledger-index-{number:04d}"


@record(frozen=True)
class IndexFacts:
    """An index in force: its number, the ledger byte at which it ends, the checksum there, and its number of keys."""

    number: int
    until: int
    checksum: int
    keys: int


@record(frozen=True)
class LedgerFacts:
    """The committed part of the ledger: its length, the checksum of its last entry, and the indexes in force.

    `keys` counts the keys of all entries; `made` counts the indexes ever written.
    """

    length: int = 0
    checksum: int = 0
    entries: int = 0
    keys: int = 0
    made: int = 0
    indexes: tuple[IndexFacts, ...] = ()

    @staticmethod
    def of(read: Mapping[str, Any]) -> LedgerFacts:
        """Build from the JSON object in a manifest."""
        return LedgerFacts(**{**read, "indexes": tuple(IndexFacts(**i) for i in read["indexes"])})

    @property
    def indexed(self) -> tuple[int, int]:
        """The byte at which the tail starts, and the checksum of the ledger there."""
        return (self.indexes[-1].until, self.indexes[-1].checksum) if self.indexes else (0, 0)

    @property
    def tail_keys(self) -> int:
        """The number of keys that are not in an index."""
        return self.keys - sum(index.keys for index in self.indexes)

    @property
    def files(self) -> frozenset[str]:
        """The names of the files in force."""
        return frozenset([*([LEDGER] if self.length else []), *(index_name(i.number) for i in self.indexes)])
