"""Iceberg's changelog view: `_change_type`, `_change_ordinal`, `_commit_snapshot_id`.

Ordinals order the commits of one view and begin at 0 in each, so they do not go on from one file to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dynq_cli.io.logs.formats.change_type_columns import copies, words
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE
from dynq_cli.spec.model import Relation

_CHANGE_TYPES = {"insert": INSERT, "delete": DELETE, "update_before": PREIMAGE, "update_after": POSTIMAGE}


def detect(free: Collection[str], names: Collection[str]) -> int:
    is_ordered = "_change_ordinal" in free or "_commit_snapshot_id" in free
    return SURE if "_change_type" in free and is_ordered else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if "_change_type" not in rows.columns:
        raise rows.lacks("_change_type", "the view of create_changelog_view has it")
    yield ChangeRows(rows, words(rows, "_change_type", _CHANGE_TYPES), copies(rows))


FORM = LogFormat(
    "iceberg",
    detect,
    translate,
    meta=("_change_type", "_change_ordinal", "_commit_snapshot_id", "_count"),
    order=("_change_ordinal",),
    continues=False,
)
