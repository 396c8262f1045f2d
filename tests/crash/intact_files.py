"""Small data files of many writers and formats, and the rows that each of them puts into its relation.

files()                 all of them, by name; the same bytes each time with the same libraries
result(relation, rows)  what a relation holds after rows of a file, worked out without dynq
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

SPEC = """\
version: 1
relations:
  plain: {columns: {a: int64, b: string?}}
  wide:
    columns:
      i8: int8?
      i32: int32
      f32: float32?
      f64: float64
      dec: decimal(9,2)?
      big: decimal(30,4)
      s: string?
      bin: binary?
      d: date?
      t: time?
      ts: timestamp?
      ok: bool?
  log: {columns: {a: int64, b: string?}}
  events: {columns: {a: int64, b: string?}, key: [a]}
queries:
  q_plain: {rule: "q_plain(a, b) :- plain(a, b)", semantics: bag}
  q_wide: {rule: "q_wide(a, b, c, d, e, f, g, h, i, j, k, l) :- wide(a, b, c, d, e, f, g, h, i, j, k, l)",
           semantics: bag}
  q_log: {rule: "q_log(a, b) :- log(a, b)", semantics: bag}
  q_events: {rule: "q_events(a, b) :- events(a, b)", semantics: bag}
"""
TWO = pa.schema({"a": pa.int64(), "b": pa.string()})
WIDE = pa.schema(
    {
        "i8": pa.int8(),
        "i32": pa.int32(),
        "f32": pa.float32(),
        "f64": pa.float64(),
        "dec": pa.decimal128(9, 2),
        "big": pa.decimal128(30, 4),
        "s": pa.string(),
        "bin": pa.binary(),
        "d": pa.date32(),
        "t": pa.time64("us"),
        "ts": pa.timestamp("us"),
        "ok": pa.bool_(),
    }
)
COLUMNS: dict[str, pa.Schema] = {"plain": TWO, "wide": WIDE, "log": TWO, "events": TWO}
# What a file has to have for its rows to be changes; Arrow types as `second_reader` asks for them.
MARKS = pa.schema({"_change_type": pa.string(), "_count": pa.int64()})
IMAGE = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())])
EVENTS = pa.schema({"before": IMAGE, "after": IMAGE, "op": pa.string()})

Row = dict[str, Any]
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Intact:
    """A file as its writer made it, and the relation after it was applied."""

    name: str
    data: bytes
    rows: Rows

    @property
    def relation(self) -> str:
        return self.name.split(".")[0]

    @property
    def form(self) -> str:
        """parquet, arrow, csv or jsonl."""
        found = next(part for part in self.name.split(".")[1:] if part in _FORMS)
        return _FORMS[found]


_FORMS = {"parquet": "parquet", "arrow": "arrow", "arrows": "arrow", "csv": "csv", "jsonl": "jsonl"}


def plain(value: Any) -> Any:
    """A value so that equal values are equal: days and microseconds as numbers, NaN as a text, −0.0 as 0.0."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, datetime):
        moment = (value if value.tzinfo is None else value.astimezone(UTC)).replace(tzinfo=None)
        return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value


class CannotBeError(Exception):
    """Rows that are no changes of their relation."""


def result(relation: str, rows: Iterable[Row]) -> Rows:
    """The relation after a file with these rows. CannotBeError where dynq has to refuse them."""
    rows = list(rows)
    if relation == "events":
        return _after_events(rows)
    held: Rows = Counter(before()[relation])
    if relation == "log" and any("_change_type" not in row for row in rows):
        raise CannotBeError("no mark: its deletes would be inserts")
    for row in rows:
        kind = (row["_change_type"] or "").lower() if "_change_type" in row else "insert"
        if kind not in _SIGNS:
            raise CannotBeError(kind)
        copies = row.get("_count", 1)
        held[tuple(plain(row[name]) for name in COLUMNS[relation].names)] += _SIGNS[kind] * (copies if copies else 1)
    if any(many < 0 for many in held.values()):
        raise CannotBeError("a delete of a row that is not there")
    return +held


_SIGNS = {"insert": 1, "delete": -1, "update_preimage": -1, "update_postimage": 1}


def _after_events(rows: Iterable[Row]) -> Rows:
    held = {row[0]: row for row in before()["events"]}
    for row in rows:
        old, new = row["before"], row["after"]
        if row["op"] in ("u", "d") and old is not None:
            held.pop(old["a"], None)
        if row["op"] in ("c", "u", "r"):
            if new is None:
                raise CannotBeError("no row")
            held[new["a"]] = (new["a"], new["b"])
    return Counter(held.values())


@cache
def before() -> dict[str, Rows]:
    """What the relations hold before a file."""
    rows = Counter({(i, f"text {i % 7}"): 1 + i % 2 for i in range(40)})
    events = Counter({(i, f"old {i}"): 1 for i in range(20)})
    return {"plain": Counter(), "wide": Counter(), "log": rows, "events": events}


@cache
def files() -> dict[str, Intact]:
    """All files by name."""
    return {name: Intact(name, data, result(name.split(".")[0], rows)) for name, data, rows in _made()}


def _made() -> Iterator[tuple[str, bytes, list[Row]]]:
    for name, table, write in _parquet():
        yield f"{name}.parquet", _written(table, write), _content(table)
    for name, table, write in _arrow():
        yield name, _written(table, write), _content(table)
    for name, table in (("plain", _two(90)), ("wide", _wide(30)), ("log", _log(60))):
        yield f"{name}.plain.csv", _csv(table), _content(table)
        yield f"{name}.lines.jsonl", _json(table), _content(table)
    yield "plain.crlf.csv", _csv(_two(90)).replace(b"\n", b"\r\n"), _content(_two(90), "\r\n")
    yield "plain.packed.csv.gz", gzip.compress(_csv(_two(200)), mtime=0), _content(_two(200))
    yield "plain.packed.csv.zst", pa.compress(_csv(_two(200)), "zstd", asbytes=True), _content(_two(200))
    yield "plain.packed.csv.bz2", bz2.compress(_csv(_two(200))), _content(_two(200))
    yield "plain.packed.csv.lz4", pa.compress(_csv(_two(200)), "lz4", asbytes=True), _content(_two(200))
    yield "plain.packed.jsonl.gz", gzip.compress(_json(_two(100)), mtime=0), _content(_two(100))
    yield "events.wrapped.jsonl", _json(_events(20)), _content(_events(20))


def _written(table: pa.Table, write: Callable[[pa.Table, io.BytesIO], None]) -> bytes:
    sink = io.BytesIO()
    write(table, sink)
    return sink.getvalue()


def _content(table: pa.Table, newline: str = "\n") -> list[Row]:
    """The rows of a table; texts with the ends of lines that the file has."""
    rows = table.to_pylist()
    return [{k: v.replace("\n", newline) if isinstance(v, str) else v for k, v in row.items()} for row in rows]


def _parquet() -> Iterator[tuple[str, pa.Table, Callable[[pa.Table, io.BytesIO], None]]]:
    two, wide, log, events = _two(120), _wide(60), _log(80), _events(20)
    yield "plain.usual", two, _pq()
    yield "plain.bare", two, _pq(compression="none", use_dictionary=False, store_schema=False)
    yield "plain.pages", _two(400), _pq(compression="none", data_page_size=300, write_batch_size=20)
    yield "plain.groups", _two(200), _pq(row_group_size=10, compression="zstd")
    yield "plain.checked", two, _pq(write_page_checksum=True, data_page_size=300, write_batch_size=20)
    yield "plain.v2", two, _pq(data_page_version="2.0", data_page_size=300, write_batch_size=20)
    yield "plain.v2-zstd", two, _pq(data_page_version="2.0", compression="zstd", use_dictionary=False)
    yield "plain.gzip", two, _pq(compression="gzip", use_dictionary=False)
    yield "plain.lz4", two, _pq(compression="lz4", use_dictionary=["b"])
    yield "plain.brotli", two, _pq(compression="brotli")
    yield "plain.indexed", _two(300), _pq(write_page_index=True, data_page_size=300, write_batch_size=20)
    deltas = {"a": "DELTA_BINARY_PACKED", "b": "DELTA_BYTE_ARRAY"}
    yield "plain.deltas", two, _pq(use_dictionary=False, column_encoding=deltas, compression="none")
    lengths = {"a": "BYTE_STREAM_SPLIT", "b": "DELTA_LENGTH_BYTE_ARRAY"}
    yield "plain.lengths", two, _pq(use_dictionary=False, column_encoding=lengths, compression="none")
    yield "plain.lengths-v2", two, _pq(use_dictionary=False, column_encoding=lengths, data_page_version="2.0")
    yield "plain.empty", _two(0), _pq()
    yield "plain.large", two.cast(pa.schema({"a": pa.int32(), "b": pa.large_string()})), _pq()
    coded = two.set_column(1, "b", two["b"].combine_chunks().dictionary_encode())
    yield "plain.coded", coded, _pq()
    more = two.append_column("other", pa.array([[i, i + 1] for i in range(120)])).append_column(
        "inner", pa.array([{"x": i, "y": {"z": str(i)}} for i in range(120)])
    )
    yield "plain.nested", more, _pq(data_page_size=300, write_batch_size=20)
    yield "plain.nested-v2", more, _pq(data_page_version="2.0", compression="none")
    yield "plain.noted", two.replace_schema_metadata({"dynq.note": "x" * 300, "pandas": "{}"}), _pq()
    yield "plain.polars", two, _polars
    yield "plain.duckdb", two, _duckdb
    yield "wide.usual", wide, _pq()
    yield "wide.bare", wide, _pq(compression="none", use_dictionary=False)
    yield "wide.v2", wide, _pq(data_page_version="2.0", compression="zstd")
    yield "wide.int96", wide, _pq(use_deprecated_int96_timestamps=True)
    yield "wide.integers", wide, _pq(store_decimal_as_integer=True, compression="none")
    split = dict.fromkeys(("i32", "f32", "f64", "d"), "BYTE_STREAM_SPLIT")
    split |= {"i8": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "t": "DELTA_BINARY_PACKED"}
    yield "wide.split", wide, _pq(use_dictionary=False, column_encoding=split)
    zoned = wide.set_column(10, "ts", wide["ts"].cast(pa.timestamp("us", "UTC")))
    yield "wide.zoned", zoned, _pq(compression="none")
    yield "wide.polars", wide, _polars
    yield "wide.duckdb", wide, _duckdb
    yield "log.usual", log, _pq()
    yield "log.bare", log, _pq(compression="none", use_dictionary=False)
    yield "log.groups", log, _pq(row_group_size=16, data_page_version="2.0")
    yield "events.usual", events, _pq(compression="none")
    yield "events.v2", events, _pq(data_page_version="2.0", use_dictionary=False)


def _pq(**options: Any) -> Callable[[pa.Table, io.BytesIO], None]:
    return lambda table, sink: pq.write_table(table, sink, **options)


def _polars(table: pa.Table, sink: io.BytesIO) -> None:
    import polars

    polars.DataFrame(table).write_parquet(sink, compression="zstd", data_page_size=400)


def _duckdb(table: pa.Table, sink: io.BytesIO) -> None:
    import tempfile

    import duckdb

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as db:
        db.execute("SET threads = 1")
        db.register("given", table)
        db.execute(f"COPY given TO '{folder}/given.parquet' (FORMAT parquet)")
        sink.write((Path(folder) / "given.parquet").read_bytes())


def _arrow() -> Iterator[tuple[str, pa.Table, Callable[[pa.Table, io.BytesIO], None]]]:
    two, wide, log, events = _two(120), _wide(50), _log(60), _events(20)
    coded = two.set_column(1, "b", two["b"].combine_chunks().dictionary_encode())
    views = two.cast(pa.schema({"a": pa.int64(), "b": pa.string_view()}))
    runs = two.set_column(1, "b", pa.compute.run_end_encode(two["b"].combine_chunks()))
    yield "plain.file.arrow", two, _ipc(ipc.new_file)
    yield "plain.stream.arrows", two, _ipc(ipc.new_stream)
    yield "plain.lz4.arrow", two, _ipc(ipc.new_file, compression="lz4")
    yield "plain.zstd.arrows", two, _ipc(ipc.new_stream, compression="zstd")
    yield "plain.coded.arrow", coded, _ipc(ipc.new_file)
    yield "plain.coded.arrows", coded, _ipc(ipc.new_stream, emit_dictionary_deltas=True, compression="lz4")
    yield "plain.views.arrow", views, _ipc(ipc.new_file)
    yield "plain.runs.arrow", runs, _ipc(ipc.new_file)
    yield "wide.file.arrow", wide, _ipc(ipc.new_file)
    yield "wide.zstd.arrows", wide, _ipc(ipc.new_stream, compression="zstd")
    yield "log.file.arrow", log, _ipc(ipc.new_file)
    yield "log.zstd.arrow", log, _ipc(ipc.new_file, compression="zstd")
    yield "events.stream.arrows", events, _ipc(ipc.new_stream)


def _ipc(new: Callable[..., Any], **options: Any) -> Callable[[pa.Table, io.BytesIO], None]:
    def write(table: pa.Table, sink: io.BytesIO) -> None:
        with new(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table, max_chunksize=40)

    return write


def _csv(table: pa.Table) -> bytes:
    lines = [",".join(table.schema.names)]
    lines += [",".join(map(_csv_field, row.values())) for row in table.to_pylist()]
    return ("\n".join(lines) + "\n").encode()


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        import base64

        value = base64.b64encode(value).decode()
    if isinstance(value, bool):
        value = "true" if value else "false"
    text = value.isoformat() if isinstance(value, (date, time, datetime)) else str(value)
    quoted = text == "" or any(mark in text for mark in ',"\n\r')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _json(table: pa.Table) -> bytes:
    def spelled(value: Any) -> Any:
        if isinstance(value, bytes):
            import base64

            return base64.b64encode(value).decode()
        return value.isoformat() if isinstance(value, (date, time, datetime)) else str(value)

    rows = [{k: "NaN" if v != v else v for k, v in row.items()} for row in table.to_pylist()]
    return "".join(json.dumps(row, default=spelled, ensure_ascii=False) + "\n" for row in rows).encode()


def _two(rows: int) -> pa.Table:
    chance = Random(rows)
    words = ["", "Ünïcode", 'with "quotes"', "a,b", "two\nlines", "back\\slash", *(f"text {i}" for i in range(12))]
    texts = [None if chance.random() < 0.1 else chance.choice(words) for _ in range(rows)]
    return pa.table([pa.array([chance.randrange(-50, 1000) for _ in range(rows)], pa.int64()), texts], schema=TWO)


def _wide(rows: int) -> pa.Table:
    chance = Random(rows)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    made = [
        {
            "i8": maybe(chance.randrange(-128, 128)),
            "i32": chance.randrange(-(1 << 31), 1 << 31),
            "f32": maybe(float(chance.choice([0.5, 1.25, float("nan"), -3.0]))),
            "f64": chance.choice([chance.random(), float("nan"), 1e300]),
            "dec": maybe(Decimal(chance.randrange(-(10**9) + 1, 10**9)).scaleb(-2)),
            "big": Decimal(chance.randrange(-(10**29), 10**29)).scaleb(-4),
            "s": maybe(f"s{chance.randrange(9)}"),
            "bin": maybe(bytes(chance.randrange(256) for _ in range(chance.randrange(6)))),
            "d": maybe(date(2024, 1 + chance.randrange(12), 1 + chance.randrange(28))),
            "t": maybe(time(chance.randrange(24), chance.randrange(60), 1, chance.randrange(10**6))),
            "ts": maybe(
                datetime(2024, 5, 1 + chance.randrange(28), chance.randrange(24), 3, 4, chance.randrange(9**6))
            ),
            "ok": maybe(chance.random() < 0.5),
        }
        for _ in range(rows)
    ]
    return pa.Table.from_pylist(made, schema=WIDE)


def _log(rows: int) -> pa.Table:
    chance = Random(rows)
    there = [row for row, many in before()["log"].items() for _ in range(many)]
    chance.shuffle(there)
    made: list[Row] = []
    for i in range(rows):
        if i % 3 == 0 and there:
            a, b = there.pop()
            made.append({"_change_type": "delete", "a": a, "b": b, "_count": 1})
        else:
            made.append({"_change_type": "insert", "a": 100 + i, "b": f"new {i % 5}", "_count": 1 + i % 3})
    schema = pa.schema([MARKS.field(0), *TWO, MARKS.field(1)])
    return pa.Table.from_pylist(made, schema=schema)


def _events(rows: int) -> pa.Table:
    made: list[Row] = []
    for i in range(rows):
        old, new = {"a": i, "b": f"old {i}"}, {"a": i, "b": f"new {i}"}
        if i % 3 == 0:
            made.append({"before": None, "after": {"a": 50 + i, "b": None if i % 2 else "created"}, "op": "c"})
        elif i % 3 == 1:
            made.append({"before": old, "after": new, "op": "u"})
        else:
            made.append({"before": old, "after": None, "op": "d"})
    return pa.Table.from_pylist(made, schema=EVENTS)
