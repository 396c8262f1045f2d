"""Allocate the fields of a table's record: words and half words."""

from __future__ import annotations

from dataclasses import field

from dynq_cli.records import record


@record()
class RecordFields:
    """The words allocated so far in a record, and the narrow fields to place after them."""

    words: int
    narrow: list[tuple[dict[str, int], str]] = field(default_factory=list)

    def wide(self, lanes: int = 1) -> int:
        place = self.words
        self.words += lanes
        return place

    def close(self) -> int:
        return self.words + (len(self.narrow) + 1) // 2
