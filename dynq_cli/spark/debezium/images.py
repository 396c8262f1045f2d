"""The events of one relation, in their order, to changes in the types of the spec.

They are read by the rules of `io.logs.forms.debezium`, so that `apply` of the events themselves does the same. What
replaces or inserts is `update_postimage`; a row with a key goes by its key alone. An event is bad as a whole: if one of
its images cannot be taken, neither is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.formats import debezium
from dynq_cli.io.logs.formats.log_format import Rows
from dynq_cli.io.logs.formats.rows import log_rows
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE, UPSERT, LogRows
from dynq_cli.spark.debezium.events import opened
from dynq_cli.spark.types import to_spark
from dynq_cli.spec.model import Column, Relation
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import arrow_type, convert

UNITS = ("ms", "us", "ns")
_NAMES = {INSERT: "insert", DELETE: "delete", PREIMAGE: "update_preimage", POSTIMAGE: "update_postimage"} | {
    UPSERT: "update_postimage"
}
_WORDS = {"ms": "", "us": "Micro", "ns": "Nano"}
_PLACE = "_change_type string, _commit_version bigint, file string, reason string, row string"


@dataclass(frozen=True)
class Schemaless:
    """What values mean whose event has no schema: the unit of times that are numbers, whether decimals are bytes."""

    unit: str | None = None
    decimal_bytes: bool = False

    def schema(self, relation: Relation) -> dict[str, Any] | None:
        """A schema that says so, as Kafka Connect would; None where there is nothing to say."""
        if self.unit is None and not self.decimal_bytes:
            return None
        return {"fields": [{"field": "after", "fields": [self._field(c) for c in relation.columns]}]}

    def _field(self, column: Column) -> dict[str, Any]:
        kind, said = column.type, {"field": column.name}
        if kind.name == "date":
            return said | {"name": "io.debezium.time.Date"}
        if kind.is_temporal and self.unit is not None:
            return said | {"name": f"io.debezium.time.{_WORDS[self.unit]}{kind.name.capitalize()}"}
        if kind.name == "decimal" and self.decimal_bytes:
            return said | {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": kind.scale}}
        return said


def changes_schema(relation: Relation) -> str:
    """What `translate` gives, as Spark writes a schema: changes, or bad events with `reason` and `row`."""
    columns = (f"v{i} {_carried(c.type)}" for i, c in enumerate(relation.columns))
    return ", ".join([_PLACE, *columns])


def _carried(kind: Type) -> str:
    """Times go from Python to Spark as numbers, which no time zone gets in the way of."""
    return "bigint" if kind.name in ("time", "timestamp") else to_spark(kind).simpleString()


def translate(relation: Relation, rules: Schemaless) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Events to changes, for Spark's `mapInArrow`: from `line`, `version` and `file` to the columns of the schema."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _translated(batch, relation, rules)

    return run


def _translated(batch: pa.RecordBatch, relation: Relation, rules: Schemaless) -> Iterator[pa.RecordBatch]:
    """All events at once; where one is bad, in halves, until it stands alone."""
    if not batch.num_rows:
        return
    try:
        yield _changes(batch, relation, rules)
    except RejectedError as error:
        if batch.num_rows == 1:
            yield _bad(batch, relation, _reason(str(error)))
            return
        middle = batch.num_rows // 2
        yield from _translated(batch.slice(0, middle), relation, rules)
        yield from _translated(batch.slice(middle), relation, rules)


def _reason(said: str) -> str:
    """The message without its place, which is one line in a stream of lines; the hint behind it."""
    message, _, hint = said.partition("\n  hint: ")
    reason = message.removeprefix(f"{_STREAM}: row 0, ").removeprefix(f"{_STREAM}: ")
    return f"{reason}: {hint}" if hint else reason


_STREAM = "events"


def _changes(batch: pa.RecordBatch, relation: Relation, rules: Schemaless) -> pa.RecordBatch:
    rows = _rows(batch.column("line").to_pylist(), relation, rules)
    parts = [log_rows(marked, relation) for marked in debezium.translate(rows, relation)]
    made = [_log(batch, part, relation) for part in parts if len(part)]
    if not made:
        return _batch(relation, 0, {})
    return pa.Table.from_batches(made).combine_chunks().to_batches()[0]


def _rows(lines: Sequence[str], relation: Relation, rules: Schemaless) -> Rows:
    events, schemas = zip(*map(opened, lines), strict=True)
    names = ("op", "before", "after")
    columns = {name: [event.get(name) for event in events] for name in names}
    assumed = rules.schema(relation)
    known = [assumed if schema is None else schema for schema in schemas]
    has_schemas = any(schema is not None for schema in known)
    return Rows(
        path=_STREAM,
        names=frozenset(names),
        columns=columns,
        numbers=np.arange(len(events), dtype=np.int64),
        is_json=True,
        schemas=known if has_schemas else None,
    )


def _log(batch: pa.RecordBatch, part: LogRows, relation: Relation) -> pa.RecordBatch:
    goes = np.isin(part.kinds, (DELETE, PREIMAGE))
    by_key = goes if relation.key else np.zeros(len(part), np.bool_)
    columns: dict[str, pa.Array] = {
        "_change_type": pa.array([_NAMES[int(kind)] for kind in part.kinds], pa.string()),
        "_commit_version": batch.column("version").take(pa.array(part.numbers)),
        "file": batch.column("file").take(pa.array(part.numbers)),
    }
    for i, column in enumerate(relation.columns):
        columns[f"v{i}"] = _values(part, column, by_key, in_key=column.name in relation.key)
    return _batch(relation, len(part), columns)


def _values(part: LogRows, column: Column, by_key: np.ndarray[Any, np.dtype[np.bool_]], *, in_key: bool) -> pa.Array:
    kind = arrow_type(column.type)
    given = part.columns.get(column.name)
    values = pa.nulls(len(part), kind) if given is None else convert(given, column.type)
    if not in_key:
        values = pc.if_else(pa.array(by_key), pa.scalar(None, values.type), values)
    absent = np.asarray(pc.is_null(values)) & ~by_key
    if absent.any() and not column.nullable:
        said = f"column {column.name}: NULL, but the column is not declared {column.type}?"
        raise RejectedError(f"{_STREAM}: row {part.numbers[absent.argmax()]}, {said}")
    return values.view(pa.int64()) if column.type.name in ("time", "timestamp") else values.cast(kind)


def _bad(batch: pa.RecordBatch, relation: Relation, reason: str) -> pa.RecordBatch:
    said = {"file": batch.column("file"), "row": batch.column("line"), "reason": pa.array([reason])}
    return _batch(relation, 1, said)


def _batch(relation: Relation, many: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    kinds = [pa.string(), pa.int64(), pa.string(), pa.string(), pa.string()]
    names = [part.split()[0] for part in _PLACE.split(", ")]
    for i, column in enumerate(relation.columns):
        names.append(f"v{i}")
        kinds.append(pa.int64() if _carried(column.type) == "bigint" else arrow_type(column.type))
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return pa.record_batch([columns.get(f.name, pa.nulls(many, f.type)) for f in schema], schema=schema)
