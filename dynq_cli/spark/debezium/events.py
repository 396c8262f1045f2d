"""Lines of JSON to Debezium's events, with or without their schema around: what there is to know before its values.

    relation                 the relation of its table; None where the spec has no such table
    op                       c, r, u, d or t
    kind … server            its position (`positions`)
    key                      the key of its row, as it is written; None without a key
    reason                   None, or why it cannot be taken

Tombstones (nothing, `null`, a payload that is null) and messages of applications (`m`) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dynq_cli.spark.debezium.positions import position_of
from dynq_cli.spec.model import Relation

TRUNCATE = "t"
_OPERATIONS = ("c", "r", "u", "d", TRUNCATE)
_MESSAGE = "m"
LINES = "value string, file string, block bigint, id bigint"
EVENTS = (
    "file string, block bigint, id bigint, line string, relation string, table string, op string, kind string,"
    " version bigint, minor string, unique string, server string, key string, reason string"
)
_COLUMNS = [
    (part.split()[0], {"string": pa.string(), "bigint": pa.int64()}[part.split()[1]]) for part in EVENTS.split(",")
]
_DECODER = json.JSONDecoder(parse_float=Decimal)


@dataclass(frozen=True)
class Tables:
    """Which relation a table is: by `table`, `schema.table` or `database.schema.table`, of which the longest decides.

    With `only`, all events are of that relation.
    """

    relations: Mapping[str, Relation]
    names: Mapping[str, str] = field(default_factory=dict)
    only: str | None = None

    def relation(self, table: str | None) -> Relation | None:
        """The relation of a table.

        >>> Tables({"R": Relation("R", ())}, {"a.R": "R"}).relation("db.a.R").name
        'R'
        """
        if self.only is not None:
            return self.relations[self.only]
        parts = (table or "").split(".")
        for i in range(len(parts)):
            named = ".".join(parts[i:])
            if named in self.names or named in self.relations:
                return self.relations[self.names.get(named, named)]
        return None


def opened(line: str) -> tuple[Any, Any]:
    """The event of a line, and its schema, each None where it is missing. ValueError for a line that is not JSON."""
    try:
        read = _DECODER.decode(line.lstrip("\ufeff"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if isinstance(read, dict) and "payload" in read and ("schema" in read or len(read) == 1):
        return read["payload"], read.get("schema")
    return read, None


def describe(tables: Tables) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Lines to events, for Spark's `mapInArrow`: from the columns of `LINES` to those of `EVENTS`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [row for line in batch.to_pylist() if (row := _described(line, tables)) is not None]
            yield pa.RecordBatch.from_pylist(rows, schema=pa.schema(_COLUMNS))

    return run


def _described(line: Mapping[str, Any], tables: Tables) -> dict[str, Any] | None:
    place = {name: line[name] for name in ("file", "block", "id")} | {"line": line["value"]}
    try:
        event, _ = opened(line["value"]) if line["value"].strip() else (None, None)
    except ValueError:
        return place | {"reason": "the line is no JSON"}
    if event is None or (isinstance(event, dict) and event.get("op") == _MESSAGE):
        return None
    if not isinstance(event, dict) or "op" not in event:
        return place | {"reason": "no change event of Debezium's: it has no op"}
    return place | _facts(event, tables)


def _facts(event: Mapping[str, Any], tables: Tables) -> dict[str, Any]:
    op, source = event["op"], event.get("source")
    said = source if isinstance(source, dict) else {}
    parts = [said.get(part) for part in ("db", "schema", "table")]
    table = ".".join(str(part) for part in parts if part is not None) if parts[-1] is not None else None
    relation = tables.relation(table)
    facts = {"table": table, "relation": relation and relation.name}
    if op not in _OPERATIONS:
        return facts | {"reason": f"op: {op} is not one of c, r, u, d, t"}
    if relation is None:
        reason = "source.table: the event does not say its table" if table is None else None
        return facts | {"op": op, "reason": reason}
    position = position_of(event)
    if position is None:
        return facts | {"op": op, "reason": "source: there is no position, not even ts_ms"}
    return facts | {"op": op, "key": _key(event, relation)} | position._asdict()


def _key(event: Mapping[str, Any], relation: Relation) -> str | None:
    image = event.get("after") or event.get("before")
    if not relation.key or not isinstance(image, dict):
        return None
    return json.dumps([image.get(name) for name in relation.key], default=str)
