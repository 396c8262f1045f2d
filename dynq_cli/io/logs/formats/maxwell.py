"""Maxwell's events: `type` with `data`, the row, and `old`, the values that an update replaced.

| type | keyed relation | keyless relation |
|---|---|---|
| insert | insert `data` | insert `data` |
| bootstrap-insert | upsert `data` | insert `data` |
| update | upsert `data`; where the key changed, delete the old one first | preimage `data` + `old`, postimage `data` |
| delete | delete `data` | delete `data` |

Events about bootstraps and schema changes are ignored; a dropped table is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dynq_cli.io.logs.formats.change_type_columns import words
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE, UPSERT, RawColumn
from dynq_cli.spec.model import Relation
from dynq_cli.spec.types import Type

_INSERT, _BOOT, _UPDATE, _DELETE, _NOTHING, _DROP = range(6)
_TYPES = {
    "insert": _INSERT,
    "update": _UPDATE,
    "delete": _DELETE,
    "bootstrap-insert": _BOOT,
    "bootstrap-start": _NOTHING,
    "bootstrap-complete": _NOTHING,
    "table-create": _NOTHING,
    "table-alter": _NOTHING,
    "table-drop": _DROP,
    "database-create": _NOTHING,
    "database-alter": _NOTHING,
    "database-drop": _DROP,
}
_DROP_HINT = "delete its rows one by one, or make a new state from a snapshot"


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if "type" in free and "data" in free and ("table" in names or "database" in names) else NO


def tables(rows: Rows) -> tuple[str, RawColumn] | None:
    named = rows.columns.get("table")
    return None if named is None else ("table", named)


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if "type" not in rows.columns or "data" not in rows.columns:
        raise rows.lacks("type", "an event has type and data")
    if not rows.is_json:
        raise rows.refused("events of Maxwell are JSON, one per line", "write them as .jsonl")
    said = words(rows, "type", _TYPES)
    if (said == _DROP).any():
        raise rows.rejected(int((said == _DROP).argmax()), "type", f"{relation.name} was dropped", _DROP_HINT)
    images: list[dict[str, Any]] = []
    kinds: list[int] = []
    events: list[int] = []

    def add(event: int, kind: int, image: dict[str, Any]) -> None:
        events.append(event)
        kinds.append(kind)
        images.append(image)

    old_images = rows.columns.get("old", [None] * len(rows))
    for event in np.nonzero(said != _NOTHING)[0].tolist():
        data = _object(rows, event, "data", rows.columns["data"][event])
        match int(said[event]):
            case 0:
                add(event, INSERT, data)
            case 1:
                add(event, UPSERT if relation.key else INSERT, data)
            case 3:
                add(event, DELETE, data)
            case _:
                old = _object(rows, event, "old", old_images[event])
                if not relation.key:
                    add(event, PREIMAGE, {**data, **old})
                elif any(name in old and old[name] != data.get(name) for name in relation.key):
                    before = {**data, **old}
                    add(event, DELETE, {name: before.get(name) for name in relation.key})
                add(event, UPSERT if relation.key else POSTIMAGE, data)
    names = dict.fromkeys(name for image in images for name in image)
    columns: dict[str, RawColumn] = {name: [image.get(name) for image in images] for name in names}
    found = replace(rows, names=frozenset(names), columns=columns, numbers=rows.numbers[events])
    yield ChangeRows(found, np.array(kinds, np.int8), prepare=_prepare)


def _object(rows: Rows, event: int, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise rows.rejected(event, name, "an object with the columns of the row has to be here")


def _prepare(name: str, values: RawColumn, kind: Type) -> RawColumn:
    """Convert 0 and 1 to booleans, which MySQL does not have."""
    if kind.name == "bool" and isinstance(values, list):
        return [bool(v) if type(v) is int and v in (0, 1) else v for v in values]
    return values


FORM = LogFormat(
    "maxwell",
    detect,
    translate,
    meta=("type", "data", "old", "table", "database"),
    order=(),
    tables=tables,
    nested=True,
)
