"""What other readers find in a data file, damaged or not: to tell a value that a flipped bit has made from a wrong one.

A bit in a page without a checksum makes another number, which no reader can notice. So where dynq accepts a damaged
file, its rows have to be those that a second reader finds: DuckDB in Parquet, polars in Arrow, and a reader of a few
lines here in CSV and JSON lines. pyarrow, which dynq reads with, counts where the second one does not know a feature.

Readers may crash on such files: each reads in a process of its own.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import multiprocessing as mp
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyarrow import ipc

from tests.crash.intact_files import COLUMNS, EVENTS, MARKS, CannotBeError, Row, Rows, result

_LONGEST = 20  # seconds
_MEMORY = 4 << 30
_NUMBERS = {
    pt.is_date32: pa.int32(),
    pt.is_time64: pa.int64(),
    pt.is_timestamp: pa.int64(),
}


class SecondReader:
    """A process that has read nothing yet, and forks for each file."""

    def __init__(self) -> None:
        self._here, there = mp.Pipe()
        self._child = os.fork()
        if not self._child:
            self._here.close()
            _serve(there)
            os._exit(0)
        there.close()

    def __enter__(self) -> SecondReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._here.close()
        os.waitpid(self._child, 0)

    def read(self, path: str, form: str, relation: str) -> dict[str, Rows | str]:
        """By reader: what the relation holds after the file, or why the reader refuses it."""
        self._here.send((path, form, relation))
        found: dict[str, Rows | str] = self._here.recv()
        return found


def _serve(jobs: Connection) -> None:
    while True:
        try:
            path, form, relation = jobs.recv()
        except EOFError:
            return
        jobs.send({name: _guarded(read, path, relation) for name, read in _READERS[form].items()})


def _guarded(read: Callable[[str, str], list[Row]], path: str, relation: str) -> Rows | str:
    ours, theirs = mp.Pipe(duplex=False)
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            # Seconds of CPU: on a busy machine a reader may wait as long as it works.
            resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST, _LONGEST))
            signal.alarm(30 * _LONGEST)
            try:
                theirs.send(result(relation, read(path, relation)))
            except CannotBeError as error:
                theirs.send(f"no changes: {error}")
            except BaseException as error:
                theirs.send(f"refused: {type(error).__name__}: {error}"[:300])
        finally:
            os._exit(0)
    theirs.close()
    try:
        found: Rows | str = ours.recv()
    except EOFError:
        found = "crashed"
    ours.close()
    os.waitpid(child, 0)
    return found


def rows_of(table: pa.Table, relation: str) -> list[Row]:
    """The rows of a table with the columns that the relation has; days and moments as numbers."""
    columns = {}
    for field in _wanted(relation, table.schema.names):
        column = _spelled_out(table[field.name])
        kind = field.type
        if pt.is_struct(kind):
            columns[field.name] = column.cast(kind)
            continue
        if pt.is_timestamp(kind) and pt.is_timestamp(column.type):
            column = column.cast(pa.timestamp(kind.unit, column.type.tz)).cast(pa.int64())
        elif not pt.is_null(column.type) and _family(column.type) != _family(kind):
            raise CannotBeError(f"{field.name} is {column.type}")
        else:
            column = column.cast(kind)
            number = next((n for is_one, n in _NUMBERS.items() if is_one(kind)), None)
            column = column if number is None else column.cast(number)
        columns[field.name] = column
    for column in columns.values():
        column.validate(full=True)
    return list(pa.table(columns).to_pylist())


def _wanted(relation: str, names: Collection[str]) -> list[pa.Field]:
    """The columns that dynq reads of a file with these columns: damage in other columns does not matter to it."""
    wanted = list(EVENTS) if relation == "events" else list(COLUMNS[relation])
    return wanted + [field for field in MARKS if relation == "log" and field.name in names]


def _spelled_out(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    array.validate(full=True)
    if pt.is_dictionary(array.type):
        return array.dictionary_decode()
    return pa.compute.run_end_decode(array) if pt.is_run_end_encoded(array.type) else array


def _family(kind: pa.DataType) -> str:
    """dynq changes a type within its family only."""
    families = {
        "a number": (pt.is_integer, pt.is_floating, pt.is_decimal),
        "a text": (pt.is_string, pt.is_large_string, pt.is_string_view),
        "bytes": (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary),
        "a time": (pt.is_time,),
    }
    return next((name for name, tests in families.items() if any(test(kind) for test in tests)), str(kind))


def _parquet_by_duckdb(path: str, relation: str) -> list[Row]:
    with duckdb.connect() as db:
        db.execute("SET threads = 1; SET TimeZone = 'UTC'")
        source = f"read_parquet('{path}')"
        described = db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        kinds = {name: kind for name, kind, *_ in described}
        names = [field.name for field in _wanted(relation, kinds)]
        zoned = {name: "::TIME" for name in names if kinds.get(name) == "TIME WITH TIME ZONE"}
        columns = ", ".join(f'"{name}"{zoned.get(name, "")} AS "{name}"' for name in names)
        table = db.execute(f"SELECT {columns} FROM {source}").to_arrow_table()
        return rows_of(table, relation)


def _parquet_by_pyarrow(path: str, relation: str) -> list[Row]:
    with pq.ParquetFile(path, page_checksum_verification=True, coerce_int96_timestamp_unit="us") as file:
        names = [field.name for field in _wanted(relation, file.schema_arrow.names)]
        return rows_of(file.read(columns=names, use_threads=False), relation)


def _arrow_by_polars(path: str, relation: str) -> list[Row]:
    with open(path, "rb") as file:
        is_file = file.read(6) == b"ARROW1"
    table = polars.read_ipc(path, memory_map=False) if is_file else polars.read_ipc_stream(path)
    return rows_of(table.to_arrow(), relation)


def _arrow_by_pyarrow(path: str, relation: str) -> list[Row]:
    data = Path(path).read_bytes()
    return rows_of((ipc.open_file if data.startswith(b"ARROW1") else ipc.open_stream)(data).read_all(), relation)


def _unpacked(path: str) -> bytes:
    data = Path(path).read_bytes()
    if path.endswith(".gz"):
        return gzip.decompress(data)
    if path.endswith(".bz2"):
        return bz2.decompress(data)
    if path.endswith((".zst", ".lz4")):
        with pa.input_stream(path, compression="detect") as source:
            return bytes(source.read())
    return data


def _csv_here(path: str, relation: str) -> list[Row]:
    # A byte-order mark is no part of the first name.
    text = _unpacked(path).decode("utf-8-sig")
    header, *rows = _csv_rows(text)
    if len(set(header)) < len(header) or None in header:
        raise ValueError("the header")
    if any(len(row) != len(header) for row in rows):
        raise ValueError("a row of another length")
    named = [dict(zip([name or "" for name in header], row, strict=True)) for row in rows]
    return [_typed(row, relation) for row in named]


def _csv_rows(text: str) -> Iterator[list[str | None]]:
    """RFC 4180; None for an unquoted field without characters. Lines without characters are no rows."""
    field = re.compile(r'"((?:[^"]|"")*)"|([^",\r\n][^,\r\n]*|)')
    at, row = 0, list[str | None]()
    while at < len(text):
        found = field.match(text, at)
        assert found is not None
        at = found.end()
        row.append(found[1].replace('""', '"') if found[1] is not None else found[2] or None)
        if at < len(text) and text[at] == ",":
            at += 1
            if at == len(text):
                row.append(None)
            continue
        newline = re.compile(r"\r\n|\n|\r|\Z").match(text, at)
        if newline is None:
            raise ValueError("a quote inside a field")
        at = newline.end()
        if row != [None]:
            yield row
        row = []
    if row:
        yield row


def _json_here(path: str, relation: str) -> list[Row]:
    rows = []
    for i, line in enumerate(_unpacked(path).split(b"\n")):
        if line.strip():
            row = json.loads(line.decode("utf-8-sig" if i == 0 else "utf-8"), parse_float=Decimal)
            rows.append({} if row is None else row)
    if relation == "events":
        images = [(row.get("before"), row.get("after")) for row in rows]
        typed = [tuple(None if one is None else _typed(one, relation) for one in both) for both in images]
        return [{"op": row.get("op"), "before": t[0], "after": t[1]} for row, t in zip(rows, typed, strict=True)]
    return [_typed(row, relation) for row in rows]


def _typed(row: Row, relation: str) -> Row:
    """The values of a row of texts or JSON values by the types of the relation."""
    made: Row = {}
    for field in COLUMNS[relation]:
        value = row.get(field.name)
        made[field.name] = None if value is None else _value(value, field.type)
    required = {"wide": ("i32", "f64", "big")}.get(relation, ("a",))
    if any(made[name] is None for name in required):
        raise CannotBeError("NULL")
    if relation == "log":
        made |= {field.name: row[field.name] for field in MARKS if field.name in row}
        if made.get("_count") is not None:
            made["_count"] = int(made["_count"])
    return made


def _value(value: Any, kind: pa.DataType) -> Any:
    if pt.is_string(kind) or pt.is_boolean(kind):
        return value.lower() == "true" if pt.is_boolean(kind) and isinstance(value, str) else value
    if pt.is_integer(kind):
        return int(Decimal(value))
    if pt.is_floating(kind):
        number = float(value)
        return number if pt.is_float64(kind) else pa.scalar(number, pa.float32()).as_py()
    if pt.is_decimal(kind):
        return Decimal(value)
    if pt.is_binary(kind):
        return base64.b64decode(value, validate=True)
    return _of_clock(value, kind)


def _of_clock(text: str, kind: pa.DataType) -> int:
    """Days or microseconds since 1970, or since midnight."""
    found = re.fullmatch(r"(?:(-?\d{4,7})-(\d\d)-(\d\d))?(?:[T ]?(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(.*)", text)
    assert found is not None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    clock = (int(hour or 0) * 60 + int(minute or 0)) * 60 + int(second or 0)
    micros = clock * 1_000_000 + int((fraction or "0").ljust(6, "0")[:6])
    if year is None:
        return micros
    days = _days(int(year), int(month), int(day))
    if pt.is_date32(kind):
        return days
    if zone and zone != "Z":
        sign, hours, minutes = re.fullmatch(r"([-+])(\d\d):?(\d\d)?", zone).groups()  # type: ignore[union-attr]
        micros -= (1 if sign == "+" else -1) * (int(hours) * 60 + int(minutes or 0)) * 60_000_000
    return days * 86_400_000_000 + micros


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the proleptic Gregorian calendar."""
    y = year - (month <= 2)
    era, of_year = divmod(y, 400)
    of_era = of_year * 365 + of_year // 4 - of_year // 100 + (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era - 719_468


_READERS: dict[str, dict[str, Callable[[str, str], list[Row]]]] = {
    "parquet": {"duckdb": _parquet_by_duckdb, "pyarrow": _parquet_by_pyarrow},
    "arrow": {"polars": _arrow_by_polars, "pyarrow": _arrow_by_pyarrow},
    "csv": {"text": _csv_here},
    "jsonl": {"text": _json_here},
}


if __name__ == "__main__":
    path, form, relation = sys.argv[1:]
    for name, read in _READERS[form].items():
        print(name, _guarded(read, path, relation))
