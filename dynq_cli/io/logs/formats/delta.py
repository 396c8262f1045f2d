"""Delta Lake's change data feed: the canonical columns, all three of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dynq_cli.io.logs.formats import canonical
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.spec.model import Relation

_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def detect(free: Collection[str], names: Collection[str]) -> int:
    is_iceberg = "_change_ordinal" in free or "_commit_snapshot_id" in free
    return SURE if all(name in free for name in _COLUMNS) and not is_iceberg else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    for name in _COLUMNS[:2]:
        if name not in rows.columns:
            raise rows.lacks(name, "a change data feed is read with readChangeFeed")
    yield from canonical.translate(rows, relation)


FORM = LogFormat("delta", detect, translate, meta=canonical.FORM.meta)
