"""Counts as text, for a terminal and for files. Nothing here needs Arrow: `dynq count` must not wait for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
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


def counts_text(counts: Mapping[str, tuple[int, int]], version: int, form: CountForm) -> str:
    """The counts of several queries, by name: rows alone, or with the distinct rows and the version.

    >>> counts_text({"a": (3, 2), "bc": (10, 10)}, 7, "txt")
    'a    3\\nbc  10'
    >>> counts_text({"a": (3, 2)}, 7, "json")
    '{"a": {"rows": 3, "distinct": 2, "version": 7}}'
    """
    if form == "json":
        named = {
            name: {"rows": rows, "distinct": distinct, "version": version} for name, (rows, distinct) in counts.items()
        }
        return json.dumps(named, ensure_ascii=False)
    if form == "csv":
        lines = [f"{name},{rows},{distinct},{version}" for name, (rows, distinct) in counts.items()]
        return "\n".join(["query,rows,distinct,version", *lines])
    wide = max(map(len, counts))
    digits = max(len(str(rows)) for rows, _ in counts.values())
    return "\n".join(f"{name:<{wide}}  {rows:>{digits}}" for name, (rows, _) in counts.items())
