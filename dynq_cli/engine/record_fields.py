"""The record of a table in the making: which words and half words its fields take."""

from __future__ import annotations

from dataclasses import field

from dynq_cli.records import record


@record()
class RecordFields:
    """The record of a table in the making: words taken so far, and narrow fields to be placed behind them."""

    words: int
    narrow: list[tuple[dict[str, int], str]] = field(default_factory=list)

    def wide(self, lanes: int = 1) -> int:
        place = self.words
        self.words += lanes
        return place

    def close(self) -> int:
        return self.words + (len(self.narrow) + 1) // 2
