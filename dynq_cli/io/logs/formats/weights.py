"""Signed weights: `_diff` or Materialize's `mz_diff` has the number of copies inserted (> 0) or deleted (< 0).

`mz_timestamp` numbers the commits. Rows with `mz_progressed` only tell how far the log is and are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.columns import null_mask
from dynq_cli.io.logs.formats.change_type_columns import flags, numbers
from dynq_cli.io.logs.formats.log_format import NO, SKIP, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT
from dynq_cli.spec.model import Relation

_WEIGHTS = ("_diff", "mz_diff")


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if any(name in free for name in _WEIGHTS) else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    name = next((name for name in _WEIGHTS if name in rows.columns), None)
    if name is None:
        raise rows.lacks("_diff", "it holds the copies that come (> 0) or go (< 0); mz_diff will do too")
    if "_count" in rows.columns and not bool(null_mask(rows.columns["_count"]).all()):
        counted = ~null_mask(rows.columns["_count"])
        raise rows.rejected(int(counted.argmax()), "_count", f"{name} says already how many copies", "leave it out")
    if "mz_progressed" in rows.columns:
        progressed = flags(rows, "mz_progressed")
        rows = rows.pick(np.nonzero(~progressed)[0]) if progressed.any() else rows
        if not len(rows):
            return
    weights = numbers(rows, name)
    if (weights == np.iinfo(np.int64).min).any():
        row = int((weights == np.iinfo(np.int64).min).argmax())
        raise rows.rejected(row, name, f"{weights[row]} is out of range")
    kinds = np.where(weights > 0, INSERT, DELETE).astype(np.int8)
    kinds[weights == 0] = SKIP
    yield ChangeRows(rows, kinds, np.abs(weights))


FORM = LogFormat(
    "weights",
    detect,
    translate,
    meta=(*_WEIGHTS, "mz_timestamp", "mz_progressed", "_commit_version", "_count"),
    order=("mz_timestamp", "_commit_version"),
)
