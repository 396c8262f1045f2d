"""Counts as text, for a terminal and for files. Nothing here needs Arrow: `dynq count` must not wait for it."""

from __future__ import annotations

import json
import os
from typing import Literal

from dynq_cli.errors import UsageError

CountForm = Literal["txt", "json", "csv"]

_FORMS: dict[str, CountForm] = {".json": "json", ".jsonl": "json", ".csv": "csv", ".txt": "txt"}


def count_form_of(path: str) -> CountForm:
    """The form that a file's name asks for.

    >>> count_form_of("out/chain.json")
    'json'
    """
    form = _FORMS.get(os.path.splitext(path)[1].lower())
    if form is None:
        raise UsageError(f"the extension of {path} says no form of counts: use one of {' '.join(_FORMS)}")
    return form


def count_text(rows: int, distinct: int, version: int, form: CountForm) -> str:
    """The count of rows alone, or with the distinct rows and the version.

    >>> count_text(3, 2, 7, "json")
    '{"rows": 3, "distinct": 2, "version": 7}'
    """
    if form == "json":
        return json.dumps({"rows": rows, "distinct": distinct, "version": version})
    if form == "csv":
        return f"rows,distinct,version\n{rows},{distinct},{version}"
    return str(rows)
