"""The form of a file of results, which its extension names, and the stream that a form is written to."""

from __future__ import annotations

import os
from typing import Any, Protocol

from dynq_cli.errors import UsageError
from dynq_cli.spec.output_formats import extensions, find

# The name of a format of `spec.output_formats`.
Form = str


class Sink(Protocol):
    """A file opened in binary mode; for formats of lines a stream that cannot seek will do."""

    def write(self, data: Any, /) -> int: ...

    def flush(self) -> None: ...


def form_of(path: str) -> Form:
    """Return the form that a file's name asks for; UsageError if its extension names none.

    >>> form_of("out/big.PARQUET")
    'parquet'
    """
    found = find(os.path.splitext(path)[1].lower().removeprefix("."))
    if found is None:
        raise UsageError(f"the extension of {path} says no form of results: use one of {' '.join(extensions())}")
    return found.name
