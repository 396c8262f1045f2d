"""What results are written to."""

from __future__ import annotations

from typing import Any, Protocol


class Sink(Protocol):
    """A file opened in binary mode; for formats of lines a stream that cannot seek will do."""

    def write(self, data: Any, /) -> int: ...

    def flush(self) -> None: ...
