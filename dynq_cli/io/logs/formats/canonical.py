"""Spark's columns: `_change_type`, and optionally `_commit_version`, `_commit_timestamp`, `_count`.

A file with some of these but without `_change_type` holds inserts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.formats.change_type_columns import copies, words
from dynq_cli.io.logs.formats.log_format import INSERTS_ONLY, NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE
from dynq_cli.spec.model import Relation

CHANGE_TYPES = {"insert": INSERT, "delete": DELETE, "update_preimage": PREIMAGE, "update_postimage": POSTIMAGE}
_OTHERS = ("_commit_version", "_commit_timestamp", "_count")
_ELSEWHERE = {"_change_ordinal", "_commit_snapshot_id"}
_HINT = "if the file has another format, name it by `dynq apply --format NAME`"


def detect(free: Collection[str], names: Collection[str]) -> int:
    if "_change_type" not in free:
        return INSERTS_ONLY if any(name in free for name in _OTHERS) else NO
    is_delta = "_commit_version" in free and "_commit_timestamp" in free
    return NO if is_delta or any(name in free for name in _ELSEWHERE) else SURE


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if "_change_type" in rows.columns:
        kinds = words(rows, "_change_type", CHANGE_TYPES, hint=_HINT)
    else:
        kinds = np.full(len(rows), INSERT, np.int8)
    yield ChangeRows(rows, kinds, copies(rows))


FORM = LogFormat(
    "canonical",
    detect,
    translate,
    meta=("_change_type", *_OTHERS),
    says_deletes=lambda names: "_change_type" in names,
    can_be_whole=lambda free: "_change_type" not in free and "_commit_version" not in free,
)
