"""Random histories, written in every format of change logs, are the rows that a dict says.

Each history inserts, updates and deletes rows with NULLs, of a relation with a key and of one without, in several
files. Formats that say the order of their rows get them shuffled, and those that repeat rows get some twice. Chunks are
small in half of the runs. `DYNQ_FUZZ=20` runs twenty times as many.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.io import sizes
from dynq_cli.io.logs import chunks
from dynq_cli.io.logs.formats import FORMS
from dynq_cli.session.apply_logs import Options, apply_logs, make

SEEDS = range(int(3 * float(os.environ.get("DYNQ_FUZZ", "1"))))
COLUMNS = "{id: int64, name: string?, qty: int32?, total: 'decimal(9,2)?', day: date?, open: bool?}"
SPEC = f"""
version: 1
relations:
  keyed: {{columns: {COLUMNS}, key: [id]SOURCE}}
  bag: {{columns: {COLUMNS}SOURCE}}
queries:
  of_keyed: {{sql: "SELECT id, name, qty, total, day, open FROM keyed"}}
  of_bag: {{sql: "SELECT id, name, qty, total, day, open FROM bag"}}
"""
TYPES = {
    "id": pa.int64(),
    "name": pa.string(),
    "qty": pa.int32(),
    "total": pa.decimal128(9, 2),
    "day": pa.date32(),
    "open": pa.bool_(),
}
NAMES = ["", "a", "Zoë", 'said "no", twice', "NULL", "two\nlines", "0"]
EPOCH = dt.date(1970, 1, 1)
BEGIN = dt.datetime(2024, 2, 28, 23, 59, 50, tzinfo=dt.UTC)
Row = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """A change: an insert has no row before it, a delete none after it. `time` counts the changes of the history."""

    time: int
    before: Row | None
    after: Row | None

    @property
    def commit(self) -> int:
        return self.time // 4

    @property
    def moment(self) -> dt.datetime:
        return BEGIN + dt.timedelta(seconds=self.time)

    @property
    def row(self) -> Row:
        """The row as it is now; of a delete, as it was."""
        found = self.after or self.before
        assert found is not None
        return found

    def images(self, insert: Any, delete: Any, before: Any, after: Any) -> Iterator[tuple[Any, Row]]:
        """The rows before and after with the words for them."""
        if self.before is not None:
            yield (delete if self.after is None else before), self.before
        if self.after is not None:
            yield (insert if self.before is None else after), self.after

    def word(self, insert: Any, update: Any, delete: Any) -> Any:
        return insert if self.before is None else delete if self.after is None else update


@dataclass(frozen=True)
class Log:
    """What a file is to say: its changes, and the relation."""

    events: list[Event]
    has_key: bool
    random: Random

    def shuffled(self, rows: list[Row]) -> list[Row]:
        return self.random.sample(rows, len(rows)) if self.has_key else rows

    def repeated(self, rows: list[Row]) -> list[Row]:
        """Some rows twice, in any order, as a source may deliver what is known by its key."""
        return self.shuffled(rows + [row for row in rows if self.has_key and self.random.random() < 0.2])

    def gone(self, row: Row) -> Row:
        """A row that goes: whole, or its key alone."""
        if self.has_key and self.random.random() < 0.3:
            return dict.fromkeys(row) | {"id": row["id"]}
        return row


@dataclass(frozen=True)
class Writer:
    """How a format says a history.

    `moves`: updates may change the key. `bag`: what it can say of rows without key. `nested`: rows are inside others.
    """

    rows: Callable[[Log], list[Row]]
    files: tuple[str, ...] = ("csv", "jsonl", "parquet")
    keyed: tuple[str, ...] = ("insert", "update", "delete")
    bag: tuple[str, ...] = ("insert", "update", "delete")
    moves: bool = False
    nested: bool = False
    source: str = ""


def canonical(log: Log) -> list[Row]:
    rows: list[Row] = []
    has_counts = not log.has_key and log.random.random() < 0.7
    for event in log.events:
        for kind, row in event.images("insert", "delete", "update_preimage", "update_postimage"):
            told = {
                "_change_type": kind,
                "_commit_version": event.commit,
                **(log.gone(row) if kind == "delete" else row),
            }
            last = rows[-1] if rows else {}
            if has_counts and kind == "insert" and last == told | {"_count": last.get("_count")}:
                rows[-1] = told | {"_count": (last["_count"] or 1) + 1}
            else:
                rows.append(told | ({"_count": log.random.choice([1, None])} if has_counts else {}))
    return rows


def delta(log: Log) -> list[Row]:
    return [row | {"_commit_timestamp": BEGIN} for row in canonical(log)]


def iceberg(log: Log) -> list[Row]:
    words = ("INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER")
    first = log.events[0].commit
    return [
        {"_change_type": kind, "_change_ordinal": e.commit - first, "_commit_snapshot_id": 7000 - e.commit, **row}
        for e in log.events
        for kind, row in e.images(*words)
    ]


def debezium(log: Log) -> list[Row]:
    says_before = not log.has_key or log.random.random() < 0.7
    rows: list[Row] = []
    for event in log.events:
        moves = event.before and event.after and event.before["id"] != event.after["id"]
        before = event.before if says_before or event.after is None or moves else None
        op = event.word(log.random.choice("cr"), "u", "d")
        rows.append({"op": op, "before": before, "after": event.after, "source": {"table": "ignored"}})
    return rows


def debezium_flat(log: Log) -> list[Row]:
    marks = log.random.choice([("__op",), ("__op", "__deleted"), ("__deleted",)] if log.has_key else [("__op",)])
    rows = []
    for event in log.events:
        told = {
            "__op": event.word(log.random.choice("cr"), "u", "d"),
            "__deleted": event.word("false", "false", "true"),
        }
        row = event.row if event.after is not None else log.gone(event.row)
        rows.append(row | {name: told[name] for name in marks})
    return rows


def flink(log: Log) -> list[Row]:
    words = log.random.choice([("+I", "-D", "-U", "+U"), ("INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER")])
    column = log.random.choice(["row_kind", "_row_kind", "rowkind", "op"])
    return [{column: kind, **row} for event in log.events for kind, row in event.images(*words)]


def dms(log: Log) -> list[Row]:
    return [{"Op": event.word("I", "U", "D"), **event.row} for event in log.events]


def weights(log: Log) -> list[Row]:
    column, sums, rows = log.random.choice(["_diff", "mz_diff"]), Counter[Any](), {}
    for event in log.events:
        for sign, row in event.images(1, -1, -1, 1):
            key = (event.commit, *row.values())
            sums[key] += sign
            rows[key] = row
    return [{column: sums[key], "mz_timestamp": key[0], **row} for key, row in rows.items()]


def fivetran(log: Log) -> list[Row]:
    rows = [e.row | {"_fivetran_deleted": e.after is None, "_fivetran_synced": e.moment} for e in log.events]
    return log.repeated(rows)


def airbyte(log: Log) -> list[Row]:
    orders: list[Callable[[Event], Row]] = [
        lambda e: {"_ab_cdc_cursor": e.time, "_ab_cdc_lsn": 5},
        lambda e: {"_ab_cdc_lsn": 90 + e.time},
        lambda e: {"_ab_cdc_lsn": f"0000002d:{e.time // 3:08x}:{e.time % 3:04x}"},
        lambda e: {"_ab_cdc_log_file": f"bin.{8 + e.time // 5:06}", "_ab_cdc_log_pos": 9 + e.time % 5},
        lambda e: {"_ab_cdc_updated_at": e.moment.isoformat()},
        lambda e: {"_airbyte_extracted_at": e.moment},
    ]
    order = log.random.choice(orders)
    deleted = [None if event.after else event.moment.isoformat() for event in log.events]
    rows = [e.row | {"_ab_cdc_deleted_at": at} | order(e) for e, at in zip(log.events, deleted, strict=True)]
    return log.repeated(rows)


def hudi(log: Log) -> list[Row]:
    def meta(event: Event) -> Row:
        return {
            "_hoodie_commit_time": event.moment.strftime("%Y%m%d%H%M%S000"),
            "_hoodie_record_key": str(event.row["id"]),
        }

    if log.has_key and log.random.random() < 0.5:
        return log.repeated([e.row | meta(e) | {"_hoodie_is_deleted": e.after is None} for e in log.events])
    words = log.random.choice([("I", "D", "-U", "U"), ("I", "D", "-U", "+U")])
    told = [row | meta(e) | {"_hoodie_operation": kind} for e in log.events for kind, row in e.images(*words)]
    return log.repeated(told)


def maxwell(log: Log) -> list[Row]:
    rows: list[Row] = []
    for event in log.events:
        about = {"database": "d", "table": "ignored", "ts": 1_700_000_000 + event.time}
        kind = event.word(log.random.choice(["insert", "bootstrap-insert"]), "update", "delete")
        rows.append({"type": kind, "data": event.row, **about})
        if event.before is not None and event.after is not None:
            old, new = event.before, event.after
            rows[-1]["old"] = {name: old[name] for name in old if old[name] != new[name]}
        if log.random.random() < 0.1:
            rows.append({"type": "table-alter", **about})
    return rows


def sqlserver(log: Log) -> list[Row]:
    spell = log.random.choice(["0x{:020X}", "{:020x}", ""])

    def position(number: int) -> Any:
        return spell.format(number) if spell else (number << 9).to_bytes(10, "big")

    rows = [
        {"__$start_lsn": position(e.commit), "__$seqval": position(e.time), "__$operation": kind, **row}
        for e in log.events
        for kind, row in e.images(2, 1, 3, 4)
    ]
    return log.random.sample(rows, len(rows))


def snowflake(log: Log) -> list[Row]:
    """Net changes: of rows with a key, by key."""
    if not log.has_key:
        net = Counter[Any]()
        for event in log.events:
            for sign, row in event.images(1, -1, -1, 1):
                net[tuple(row.items())] += sign
        told = [(dict(row), count > 0, False) for row, count in net.items() for _ in range(abs(count))]
    else:
        first: dict[int, Row | None] = {}
        last: dict[int, Row | None] = {}
        for event in log.events:
            for is_new, row in event.images(True, False, False, True):
                first.setdefault(row["id"], None if is_new else row)
                last[row["id"]] = row if is_new else None
        told = []
        for key, old in first.items():
            new = last[key]
            if old != new:
                both = old is not None and new is not None
                told += [(row, row is new, both) for row in (old, new) if row is not None]
    rows = [
        row | {"METADATA$ACTION": "INSERT" if comes else "DELETE", "METADATA$ISUPDATE": both}
        for row, comes, both in told
    ]
    return log.random.sample(rows, len(rows))


def bigquery(log: Log) -> list[Row]:
    orders: list[Callable[[Event], Row]] = [
        lambda e: {"_CHANGE_SEQUENCE_NUMBER": f"{e.time // 7:X}/{e.time % 7:x}"},
        lambda e: {"_CHANGE_TIMESTAMP": e.moment},
    ]
    order = log.random.choice(orders)
    if not log.has_key:
        return [e.row | {"_CHANGE_TYPE": e.word("INSERT", "", "DELETE")} | order(e) for e in log.events]
    if log.random.random() < 0.5:
        return log.repeated(
            [e.row | {"_CHANGE_TYPE": e.word("UPSERT", "UPSERT", "DELETE")} | order(e) for e in log.events]
        )
    return log.shuffled([e.row | {"_CHANGE_TYPE": e.word("INSERT", "UPDATE", "DELETE")} | order(e) for e in log.events])


def snapshot(log: Log) -> list[Row]:
    return [event.row for event in log.events]


def mapped(log: Log) -> list[Row]:
    return [event.row | {"action": event.word("Add", "chg", "DEL")} for event in log.events]


def mapped_by_condition(log: Log) -> list[Row]:
    return [event.row | {"status": event.word("new", None, "gone")} for event in log.events]


ONE_BY_ONE = ("insert", "delete")
WRITERS = {
    "canonical": Writer(canonical, moves=True),
    "delta": Writer(delta, moves=True),
    "iceberg": Writer(iceberg, moves=True),
    "debezium": Writer(debezium, ("jsonl", "parquet"), moves=True, nested=True),
    "debezium-flat": Writer(debezium_flat, bag=ONE_BY_ONE),
    "flink": Writer(flink, moves=True),
    "dms": Writer(dms, bag=ONE_BY_ONE),
    "weights": Writer(weights, moves=True),
    "fivetran": Writer(fivetran, bag=("insert",)),
    "airbyte": Writer(airbyte, bag=("insert",)),
    "hudi": Writer(hudi),
    "maxwell": Writer(maxwell, ("jsonl",), moves=True, nested=True),
    "sqlserver": Writer(sqlserver, moves=True),
    "snowflake": Writer(snowflake, moves=True),
    "bigquery": Writer(bigquery, bag=ONE_BY_ONE),
    "snapshot": Writer(snapshot, keyed=("insert",), bag=("insert",)),
}
SOURCES = {
    "op": Writer(
        mapped, bag=ONE_BY_ONE, source=", source: {op: {column: action, insert: [add], update: [CHG], delete: [del]}}"
    ),
    "condition": Writer(
        mapped_by_condition, bag=("insert",), source=", source: {deleted_when: \"status = 'gone' AND id >= 0\"}"
    ),
}


def test_every_format_has_a_writer_here() -> None:
    assert set(WRITERS) == {form.name for form in FORMS}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WRITERS)
def test_a_random_history_in_a_format_is_the_rows_it_leaves(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(WRITERS[name], name, Random(f"{name} {seed}"), tmp_path, monkeypatch)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_random_history_that_the_spec_explains_is_the_rows_it_leaves(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(SOURCES[name], "source", Random(f"{name} {seed}"), tmp_path, monkeypatch)


def check(writer: Writer, form: str, random: Random, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if random.random() < 0.5:
        monkeypatch.setattr(chunks, "_JSON_ROWS", 5)
        monkeypatch.setattr(sizes, "cut", partial(sizes.cut, rows=5))
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", writer.source), "utf-8")
    stored: dict[str, Counter[tuple[Any, ...]]] = {"keyed": Counter(), "bag": Counter()}
    time = 0
    with make(folder / "spec.yaml", folder / "state") as state:
        for number in range(3):
            for relation, rows in stored.items():
                events = history(random, rows, writer, time, has_key=relation == "keyed")
                time += len(events)
                told = writer.rows(Log(events, relation == "keyed", random))
                if not told:
                    continue
                path = write(folder / f"{relation}.{number}.{random.choice(writer.files)}", told, writer, random)
                asked = form if form != "source" and random.random() < 0.3 else None
                (outcome,) = apply_logs(state, [str(path)], Options(form=asked))
                assert outcome.form == form
                found = {}
                for batch in state.enum(f"of_{relation}"):
                    for row in batch.to_pylist():
                        count = row.pop("_count")
                        found[tuple(row.values())] = count
                assert found == dict(rows), f"{path}: {path.read_bytes()!r}"


def history(random: Random, rows: Counter[tuple[Any, ...]], writer: Writer, time: int, *, has_key: bool) -> list[Event]:
    """Some changes, each of the rows that the ones before leave; `rows` are changed by them."""
    events = []
    kinds = writer.keyed if has_key else writer.bag
    for at in range(time, time + random.randint(1, 24)):
        kind = random.choice(kinds) if rows else "insert"
        taken = {row[0] for row in rows}
        old = None if kind == "insert" else random.choice(list(rows.elements()))
        free = [key for key in range(90) if not has_key or key not in taken]
        new = None if kind == "delete" else tuple(some_row(random, random.choice(free)).values())
        if new is not None and old is not None and not (writer.moves and random.random() < 0.3):
            new = (old[0], *new[1:])
        if new is not None and old is None and not has_key and rows and random.random() < 0.4:
            new = random.choice(list(rows))
        rows.subtract([row for row in (old,) if row is not None])
        rows.update([row for row in (new,) if row is not None])
        for row in [row for row, count in rows.items() if not count]:
            del rows[row]
        events.append(Event(at, *(None if row is None else dict(zip(TYPES, row, strict=True)) for row in (old, new))))
    return events


def some_row(random: Random, key: int) -> Row:
    values = {
        "name": random.choice(NAMES),
        "qty": random.choice([0, -1, 2**31 - 1, random.randint(0, 9)]),
        "total": Decimal(random.choice([0, -5, 10**9 - 1, random.randint(0, 999)])).scaleb(-2),
        "day": EPOCH + dt.timedelta(days=random.choice([0, -1, 20_000])),
        "open": random.random() < 0.5,
    }
    return {"id": key} | {name: None if random.random() < 0.25 else value for name, value in values.items()}


def write(path: Path, rows: list[Row], writer: Writer, random: Random) -> Path:
    columns = list(rows[0]) if rows else [*TYPES]
    match path.suffix:
        case ".csv":
            lines = [",".join(columns), *(",".join(csv_value(row[name]) for name in columns) for row in rows)]
            path.write_text("".join(line + "\n" for line in lines), "utf-8")
        case ".jsonl":
            drops, wraps = random.random() < 0.5, writer.nested and "op" in columns and random.random() < 0.3
            told = [json_value(row, drops=drops) for row in rows]
            lines = [json.dumps({"schema": None, "payload": row} if wraps else row) for row in told]
            path.write_text("".join(line + "\n" for line in lines), "utf-8")
        case _:
            types = TYPES | ({"qty": pa.float64()} if random.random() < 0.4 else {})
            types |= {"total": pa.float64()} if random.random() < 0.4 else {}
            table = {name: array([row[name] for row in rows], types, name) for name in columns}
            pq.write_table(pa.table(table), path)
    return path


def csv_value(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return (
        "" if value is None else str(json_value(value)).lower() if isinstance(value, bool) else str(json_value(value))
    )


def json_value(value: Any, *, drops: bool = False) -> Any:
    if isinstance(value, dict):
        kept = {n: v for n, v in value.items() if not (drops and v is None and n in TYPES)}
        return {n: json_value(v, drops=drops and n != "old") for n, v in kept.items()}
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, dt.date) else value


def array(values: list[Any], types: dict[str, pa.DataType], name: str) -> pa.Array:
    if name in ("before", "after"):
        held = [{} if value is None else value for value in values]
        parts = [array([value.get(column) for value in held], types, column) for column in types]
        return pa.StructArray.from_arrays(parts, list(types), mask=pa.array([value is None for value in values]))
    kind = types.get(name)
    if kind == pa.float64():
        return pa.array(
            [float("nan") if v is None and name == "qty" else None if v is None else float(v) for v in values]
        )
    return pa.array(values, kind)
