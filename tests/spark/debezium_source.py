"""A database that changes at random, and the events that Debezium's connectors write about it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from tests.spark.snapshots import COLUMNS, Row, random_row

NAMES = ("k", "part", *COLUMNS)
KINDS = dict(zip(NAMES, ("int64", "string", *COLUMNS.values()), strict=True))
CONNECTORS = ("postgresql", "mysql", "sqlserver", "oracle")
_EPOCH = datetime(1970, 1, 1)
Image = dict[str, Any] | None


def encoded(value: Any, kind: str, *, has_schema: bool) -> Any:
    """A value as Debezium writes it: with a schema in numbers and bytes, else in texts and days."""
    match value:
        case None | bool():
            return value
        case Decimal() if has_schema:
            number = int(value.scaleb(int(kind.rstrip(")").split(",")[1])))
            length = (number + (number < 0)).bit_length() // 8 + 1
            return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()
        case Decimal():
            return str(value)
        case float():
            return value if value - value == 0 else str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            micros = round((value - _EPOCH).total_seconds()) * 1_000_000 + value.microsecond
            return micros if has_schema else value.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
        case date():
            return (value - date(1970, 1, 1)).days
        case time():
            micros = (value.hour * 60 + value.minute) * 60_000_000 + value.second * 1_000_000 + value.microsecond
            return micros if has_schema else value.isoformat()
    return value


def _field(name: str, kind: str) -> dict[str, Any]:
    logical = {
        "date": ("int32", "io.debezium.time.Date"),
        "time": ("int64", "io.debezium.time.MicroTime"),
        "timestamp": ("int64", "io.debezium.time.MicroTimestamp"),
    }
    if kind.startswith("decimal"):
        scale = kind.rstrip(")").split(",")[1]
        named = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": scale}}
        return {"field": name, "type": "bytes", "optional": True} | named
    if kind in logical:
        return {"field": name, "type": logical[kind][0], "name": logical[kind][1], "optional": True}
    return {"field": name, "type": kind, "optional": True}


SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": side, "type": "struct", "fields": [_field(name, kind) for name, kind in KINDS.items()]}
        for side in ("before", "after")
    ],
}


@dataclass
class Source:
    """A table `R` with a key (k, part) and a table `T` without one, and the events of their changes in order."""

    rng: Random
    connector: str
    has_schema: bool = True
    keyed: dict[tuple[Any, Any], Row] = field(default_factory=dict)
    keyless: Counter[Row] = field(default_factory=Counter)
    _clock: int = 1_000
    _committed: int = 900

    def transactions(self, many: int) -> list[str]:
        """The lines of some transactions, in the order in which they were committed."""
        return [line for _ in range(many) for line in self._transaction()]

    def _transaction(self) -> list[str]:
        begun = self._clock
        # PostgreSQL: others commit while this one is at work, so what it writes has numbers before theirs.
        late = self.connector == "postgresql" and self.rng.random() < 0.5
        self._clock += 1_000
        last = self._committed
        if late:
            last = self._committed = begun + 500
        changes = [change for _ in range(self.rng.randrange(1, 5)) for change in self._change()]
        self._committed = self._clock
        return [
            self._line(table, op, before, after, begun + i, last, i)
            for i, (table, op, before, after) in enumerate(changes)
        ]

    def _change(self) -> list[tuple[str, str, Image, Image]]:
        if self.rng.random() < 0.3:
            return [self._change_keyless()]
        taken = sorted(self.keyed)
        if taken and self.rng.random() < 0.3:
            row = self.keyed.pop(self.rng.choice(taken))
            return [("R", "d", self._image(row), None)]
        if taken and self.rng.random() < 0.6:
            key = self.rng.choice(taken)
            old = self.keyed.pop(key)
            new = random_row(self.rng, self.rng.randrange(60) if self.rng.random() < 0.3 else key[0])
            new = (new[0], key[1], *new[2:])
            if (new[0], new[1]) in self.keyed:
                new = (key[0], *new[1:])
            self.keyed[new[0], new[1]] = new
            # The row as it was is there if the database logs it.
            is_moved = new[:2] != old[:2]
            return [("R", "u", self._image(old) if is_moved or self.rng.random() < 0.5 else None, self._image(new))]
        row = random_row(self.rng, self.rng.randrange(60))
        is_new = (row[0], row[1]) not in self.keyed
        self.keyed[row[0], row[1]] = row
        return [("R", "c" if is_new else "r", None, self._image(row))]

    def _change_keyless(self) -> tuple[str, str, Image, Image]:
        row = (self.rng.randrange(5), self.rng.choice(["x", "y", None]))
        there = sorted(self.keyless.elements(), key=str)
        if there and self.rng.random() < 0.5:
            old = self.rng.choice(there)
            self.keyless[old] -= 1
            self.keyless += Counter()
            if self.rng.random() < 0.5:
                return ("T", "d", _keyless(old), None)
            self.keyless[row] += 1
            return ("T", "u", _keyless(old), _keyless(row))
        self.keyless[row] += 1
        return ("T", "c", None, _keyless(row))

    def _image(self, row: Row) -> dict[str, Any]:
        values = zip(KINDS.items(), row, strict=True)
        return {name: encoded(value, kind, has_schema=self.has_schema) for (name, kind), value in values}

    def _line(self, table: str, op: str, before: Image, after: Image, number: int, last: int, row: int) -> str:
        source = {"connector": self.connector, "db": "shop", "table": table, "ts_ms": 5}
        source |= _POSITIONS[self.connector](number, last, row)
        event = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 7}
        whole = {"schema": SCHEMA if table == "R" else {"type": "struct"}, "payload": event}
        return json.dumps(whole if self.has_schema else event)


def _keyless(row: Row) -> dict[str, Any]:
    return {"n": row[0], "s": row[1]}


def _hex(number: int) -> str:
    return f"{number >> 16:08x}:{number & 0xFFFF:08x}:0001"


_POSITIONS: dict[str, Callable[[int, int, int], dict[str, Any]]] = {
    "postgresql": lambda number, last, row: {
        "schema": "public",
        "lsn": number,
        "sequence": json.dumps([str(last), str(number)]),
    },
    "mysql": lambda number, last, row: {
        "file": f"mysql-bin.{number // 5_000:06}",
        "pos": number % 5_000 - row,
        "row": row,
        "server_id": 7,
    },
    "sqlserver": lambda number, last, row: {
        "schema": "dbo",
        "commit_lsn": _hex(number - row + 500),
        "change_lsn": _hex(number),
        "event_serial_no": 1,
    },
    "oracle": lambda number, last, row: {"schema": "SHOP", "scn": str(number), "commit_scn": str(number - row + 500)},
}


def scatter(rng: Random, folder: Path, lines: list[str], *, repeat: bool) -> None:
    """Lines into files in any order, some of them twice, with tombstones and other tables among them."""
    folder.mkdir(parents=True)
    scattered = list(lines)
    if repeat:
        scattered += [line for line in lines if rng.random() < 0.2 and '"table": "R"' in line]
    scattered += ["null", "", '{"schema": null, "payload": null}']
    scattered.append(json.dumps({"op": "c", "after": {"x": 1}, "source": {"table": "other", "ts_ms": 1}}))
    rng.shuffle(scattered)
    for i in range(3):
        (folder / f"events-{i}.json").write_text("\n".join(scattered[i::3]) + "\n", "utf-8")
