"""Which form a file of results has: its extension says so."""

from __future__ import annotations

import os
from typing import Literal

from dynq_cli.errors import UsageError

Form = Literal["parquet", "csv", "jsonl", "arrow"]

_FORMS: dict[str, Form] = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".arrow": "arrow"}


def form_of(path: str) -> Form:
    """The form that a file's name asks for.

    >>> form_of("out/big.PARQUET")
    'parquet'
    """
    form = _FORMS.get(os.path.splitext(path)[1].lower())
    if form is None:
        raise UsageError(f"the extension of {path} says no form of results: use one of {' '.join(_FORMS)}")
    return form
