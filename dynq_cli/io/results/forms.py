"""Which form a file of results has: its extension says so."""

from __future__ import annotations

import os

from dynq_cli.errors import UsageError
from dynq_cli.spec.output_formats import extensions, find

# The name of a format of `spec.output_formats`.
Form = str


def form_of(path: str) -> Form:
    """The form that a file's name asks for.

    >>> form_of("out/big.PARQUET")
    'parquet'
    """
    found = find(os.path.splitext(path)[1].lower().removeprefix("."))
    if found is None:
        raise UsageError(f"the extension of {path} says no form of results: use one of {' '.join(extensions())}")
    return found.name
