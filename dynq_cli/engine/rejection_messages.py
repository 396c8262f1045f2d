"""Describe why the engine refused a change: the columns and the reason."""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Degree
from dynq_cli.engine.codes import decode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.engine import BatchError, Changes
from dynq_cli.engine.kernels import fields as f
from dynq_cli.values.convert import spelled

_REASONS = {
    f.NEGATIVE: "deletes a row that is not there",
    f.DUPLICATE_KEY: "has a key that is there already",
    f.NO_SUCH_KEY: "deletes a key that is not there",
    f.TOO_MANY: "makes more than 2^63 - 1 copies of one row",
}
_SHOWN = 80


def why(error: BatchError, changes: Changes, base: BaseLayout, dictionaries: Dictionaries) -> tuple[str, str]:
    """Return the columns at fault, and a reason that completes a sentence about the row."""
    if error.degree is not None:
        return error.degree.column, past_degree(error.degree, base, dictionaries)
    columns = base.relation.key if error.reason in (f.DUPLICATE_KEY, f.NO_SUCH_KEY) else base.order
    row = changes.codes[error.change]
    said = []
    for name in columns:
        column = base.relation.column(name)
        assert column is not None
        at = base.order.index(name)
        said.append(spelled(decode(row[at : at + 1], column.type, dictionaries)[0]))
    shown = ", ".join(said)
    if len(shown) > _SHOWN:
        shown = shown[: _SHOWN - 1] + "…"
    reason = _REASONS[error.reason]
    many = int(changes.counts[error.change])
    if error.reason == f.DUPLICATE_KEY and many > 1:
        reason = f"has {many:,} copies, and {base.relation.name} has a key: one copy of each row"
    return ", ".join(base.relation.key), f"{reason} ({shown})"


def past_degree(degree: Degree, base: BaseLayout, dictionaries: Dictionaries) -> str:
    """Describe a value that is in more rows of a column than the relation's `max_degree`."""
    relation, column = base.relation, base.relation.column(degree.column)
    assert column is not None
    value = spelled(decode(np.array([degree.value]), column.type, dictionaries)[0])
    shown = value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…"
    return f"{shown} is then in {degree.rows:,} rows of {relation.name}, whose `max_degree` is {relation.max_degree:,}"
