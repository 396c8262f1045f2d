"""Flink's changelogs: a column with the RowKind, short (`+I -U +U -D`) or by name (`INSERT`, `UPDATE_BEFORE`, …)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dynq_cli.io.logs.formats.change_type_columns import copies, words
from dynq_cli.io.logs.formats.log_format import LIKELY, NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE
from dynq_cli.spec.model import Relation

_NAMED = ("row_kind", "_row_kind", "rowkind")
_PERHAPS = "op"
_KINDS = {
    "+I": INSERT,
    "-U": PREIMAGE,
    "+U": POSTIMAGE,
    "-D": DELETE,
    "INSERT": INSERT,
    "UPDATE_BEFORE": PREIMAGE,
    "UPDATE_AFTER": POSTIMAGE,
    "DELETE": DELETE,
}
_HINT = "name the file's format by `dynq apply --format NAME`: if the column is only data, it is `snapshot`"


def detect(free: Collection[str], names: Collection[str]) -> int:
    if any(name in free for name in _NAMED):
        return SURE
    is_envelope = "before" in free or "after" in free
    return LIKELY if _PERHAPS in free and not is_envelope else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    for name in (*_NAMED, _PERHAPS):
        if name in rows.columns:
            yield ChangeRows(rows, words(rows, name, _KINDS, hint=_HINT), copies(rows))
            return
    raise rows.lacks("row_kind", f"one of {', '.join((*_NAMED, _PERHAPS))} holds the RowKind")


FORM = LogFormat("flink", detect, translate, meta=(*_NAMED, _PERHAPS, "_commit_version", "_count"))
