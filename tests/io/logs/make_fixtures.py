"""Writes `fixtures/`: small change logs in the shapes that their producers document.

    python tests/io/logs/make_fixtures.py [DIRECTORY]

Each function says which producer it follows and with which settings. All tell of the same few orders.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent / "fixtures"
EPOCH = dt.date(1970, 1, 1)
Row = dict[str, Any]

ORDER_TYPES = {
    "order_id": pa.int64(),
    "customer": pa.string(),
    "price": pa.decimal128(10, 2),
    "placed": pa.date32(),
    "updated": pa.timestamp("us", tz="UTC"),
    "note": pa.string(),
}


def order(number: int, customer: str, price: str, day: int, hour: int, note: str | None = None) -> Row:
    updated = dt.datetime(2024, 3, day, hour, 30, 0, 250_000, dt.UTC)
    placed = dt.date(2024, 3, day)
    return dict(zip(ORDER_TYPES, [number, customer, Decimal(price), placed, updated, note], strict=True))


FIRST = order(1, "Ada", "12.50", 1, 9)
SECOND = order(2, "Bob", "-0.05", 1, 10, "call first")
SECOND_LATER = order(2, "Bob", "99999999.99", 2, 11, "")
THIRD = order(3, "Zoë", "7.00", 2, 12, 'said "yes"')


def connect_schema() -> Row:
    """As JsonConverter writes it: decimal.handling.mode=precise, time.precision.mode=adaptive."""
    columns = [
        {"type": "int64", "optional": False, "field": "order_id"},
        {"type": "string", "optional": False, "field": "customer"},
        {
            "type": "bytes",
            "optional": False,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            "field": "price",
        },
        {"type": "int32", "optional": False, "name": "io.debezium.time.Date", "version": 1, "field": "placed"},
        {
            "type": "int64",
            "optional": False,
            "name": "io.debezium.time.MicroTimestamp",
            "version": 1,
            "field": "updated",
        },
        {"type": "string", "optional": True, "field": "note"},
    ]
    image = {"type": "struct", "fields": columns, "optional": True, "name": "shop.public.orders.Value"}
    source = {"type": "struct", "fields": [{"type": "string", "optional": False, "field": "table"}], "field": "source"}
    fields = [
        {**image, "field": "before"},
        {**image, "field": "after"},
        source,
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]
    return {"type": "struct", "fields": fields, "optional": False, "name": "shop.public.orders.Envelope", "version": 2}


def precise(row: Row) -> Row:
    unscaled = int(row["price"] * 100)
    price = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
    return {
        **row,
        "price": base64.b64encode(price).decode(),
        "placed": (row["placed"] - EPOCH).days,
        "updated": microseconds(row["updated"]),
    }


def microseconds(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def as_texts(row: Row) -> Row:
    """decimal.handling.mode=string; `updated` is timestamptz, which is a ZonedTimestamp."""
    updated = row["updated"].isoformat().replace("+00:00", "Z")
    return {**row, "price": str(row["price"]), "placed": (row["placed"] - EPOCH).days, "updated": updated}


def event(op: str, before: Row | None, after: Row | None, lsn: int) -> Row:
    source = {
        "version": "2.7.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1709285400250,
        "snapshot": "first" if op == "r" else "false",
        "db": "shop",
        "schema": "public",
        "table": "orders",
        "txId": 700 + lsn,
        "lsn": lsn,
        "xmin": None,
    }
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1709285400600, "transaction": None}


# REPLICA IDENTITY DEFAULT logs the key alone, and columns that are NOT NULL get the fallback of their type.
BARE_SECOND = {"order_id": 2, "customer": "", "price": "AA==", "placed": 0, "updated": 0, "note": None}


def debezium_with_schema() -> list[Row]:
    events = [
        event("r", None, precise(FIRST), 1),
        event("c", None, precise(SECOND), 2),
        event("u", None, precise(SECOND_LATER), 3),
        event("d", BARE_SECOND, None, 4),
    ]
    wrapped: list[Row] = [{"schema": connect_schema(), "payload": e} for e in events]
    return [*wrapped, {"schema": None, "payload": None}]


def debezium_without_schema() -> list[Row]:
    """REPLICA IDENTITY FULL, schemas.enable=false."""
    return [
        event("c", None, as_texts(FIRST), 1),
        event("c", None, as_texts(SECOND), 2),
        event("u", as_texts(SECOND), as_texts(SECOND_LATER), 3),
        event("d", as_texts(FIRST), None, 4),
    ]


def debezium_flat() -> list[Row]:
    """ExtractNewRecordState with delete.handling.mode=rewrite and add.fields=op,table,lsn."""

    def flat(row: Row, op: str, lsn: int) -> Row:
        return {**as_texts(row), "__deleted": str(op == "d").lower(), "__op": op, "__table": "orders", "__lsn": lsn}

    return [flat(FIRST, "r", 1), flat(SECOND, "c", 2), flat(SECOND_LATER, "u", 3), flat(FIRST, "d", 4)]


def table(rows: list[Row], **meta: tuple[pa.DataType, list[Any]]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in ORDER_TYPES.items()}
    return pa.table({**columns, **{name: pa.array(values, kind) for name, (kind, values) in meta.items()}})


def delta() -> pa.Table:
    """readChangeFeed, written as Parquet by Spark; versions are not in the order of the file."""
    kinds = ["update_preimage", "update_postimage", "insert", "insert", "delete"]
    moments = [dt.datetime(2024, 3, 2 if v == 8 else 1, tzinfo=dt.UTC) for v in (8, 8, 7, 7, 8)]
    return table(
        [SECOND, SECOND_LATER, FIRST, SECOND, FIRST],
        _change_type=(pa.string(), kinds),
        _commit_version=(pa.int64(), [8, 8, 7, 7, 8]),
        _commit_timestamp=(pa.timestamp("us", tz="UTC"), moments),
    )


def iceberg() -> pa.Table:
    """create_changelog_view with identifier_columns, so that updates are computed."""
    return table(
        [FIRST, SECOND, SECOND, SECOND_LATER, FIRST],
        _change_type=(pa.string(), ["INSERT", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]),
        _change_ordinal=(pa.int32(), [0, 0, 1, 1, 2]),
        _commit_snapshot_id=(pa.int64(), [5390529835796506035] * 2 + [8764748981452218370] * 2 + [1024] * 1),
    )


def flink_rowkind() -> pa.Table:
    """Paimon's audit_log table, as Flink and Spark read it: `rowkind` first."""
    changes = table([FIRST, SECOND, SECOND, SECOND_LATER, FIRST])
    kinds = pa.array(["+I", "+I", "-U", "+U", "-D"])
    return changes.add_column(0, "rowkind", kinds)


def dms() -> pa.Table:
    """CDC to S3 as Parquet: `Op` is the first column; deletes hold the row as it was."""
    changes = table([FIRST, SECOND, SECOND_LATER, FIRST])
    naive = changes["updated"].cast(pa.timestamp("us"))
    changes = changes.set_column(changes.column_names.index("updated"), "updated", naive)
    return changes.add_column(0, "Op", pa.array(["I", "I", "U", "D"]))


TEXTS = {
    # Flink's TO_CHANGELOG: a column `op` with the names of the row kinds.
    "flink_to_changelog.csv": """\
op,page,user_id
INSERT,/home,1
INSERT,/cart,2
UPDATE_BEFORE,/cart,2
UPDATE_AFTER,/pay,2
DELETE,/home,1
""",
    # DMS to S3 with AddColumnName=true: a full load has no Op, CDC has it first.
    "dms_load.csv": """\
order_id,customer,price,placed,updated,note
1,Ada,12.50,2024-03-01,2024-03-01 09:30:00.250000,
""",
    "dms_cdc.csv": """\
Op,order_id,customer,price,placed,updated,note
I,2,Bob,-0.05,2024-03-01,2024-03-01 10:30:00.250000,call first
U,2,Bob,99999999.99,2024-03-02,2024-03-02 11:30:00.250000,""
D,1,,,,,
""",
    # COPY (SUBSCRIBE clicks WITH (PROGRESS)) TO STDOUT WITH (FORMAT CSV), under a header line.
    "materialize_subscribe.csv": """\
mz_timestamp,mz_progressed,mz_diff,page,user_id
1709285400000,f,1,/home,1
1709285400000,f,3,/cart,2
1709285401000,t,,,
1709285401000,f,-2,/cart,2
1709285402000,t,,,
""",
    "weights.jsonl": """\
{"page": "/home", "user_id": 1, "_diff": 2}
{"page": "/cart", "user_id": 2, "_diff": 0}
{"page": "/home", "user_id": 1, "_diff": -1}
""",
    "canonical.csv": """\
_change_type,_commit_version,_count,page,user_id
insert,1,2,/home,1
INSERT,1,,/cart,2
Delete,2,1,/home,1
update_preimage,2,1,/cart,2
update_postimage,2,1,/pay,2
""",
    "snapshot.csv": """\
page,user_id,referrer
/home,1,
/home,1,mail
"",2,
""",
    "mixed.jsonl": """\
{"_relation": "clicks", "page": "/home", "user_id": 1}
{"_relation": "customers", "id": 7, "name": "Ada"}
{"_relation": "clicks", "page": "/cart", "user_id": 1}
""",
}


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in TEXTS.items():
        (folder / name).write_text(text, "utf-8")
    events = {
        "debezium_schema.jsonl": debezium_with_schema(),
        "debezium_full.jsonl": debezium_without_schema(),
        "debezium_flat.jsonl": debezium_flat(),
    }
    for name, rows in events.items():
        (folder / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    # Spark's default for timestamps is INT96.
    pq.write_table(delta(), folder / "delta_cdf.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(iceberg(), folder / "iceberg_changelog.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(flink_rowkind(), folder / "paimon_audit_log.parquet")
    pq.write_table(dms(), folder / "dms_cdc.parquet")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
