"""Relations of every type with a random history, beside a plain Python model of their rows.

tables = RandomTables(seed)
tables.changes()            one commit of inserts, deletes and updates, as Arrow tables by relation
tables.rows["keyed"]        Counter of rows, as the state has to have them
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Relation
from dynq_cli.values.convert import arrow_type

Row = tuple[Any, ...]

SPEC = """\
version: 1
relations:
  keyed:
    columns:
      note: string?
      id: int64
      part: string
      big: decimal(38,10)?
      small: decimal(9,2)
      on: bool?
      day: date?
    key: [id, part]
  bag:
    columns:
      b: binary?
      i8: int8?
      i16: int16
      i32: int32
      f32: float32?
      f64: float64?
      at: timestamp?
      t: time?
      wide: decimal(30,0)?
  filtered: {columns: {x: int64?, y: string, unused: "string?"}}
queries:
  joined: {sql: "SELECT k.id, k.note, b.i32 FROM keyed k, bag b WHERE k.id = b.i32"}
  some: {sql: "SELECT x, y FROM filtered WHERE x > 1 AND y LIKE 'a%'"}
  sums: {sql: "SELECT part, SUM(small) AS total, MAX(big) AS most, COUNT(*) AS n FROM keyed GROUP BY part"}
"""
POOLS: dict[str, list[Any]] = {
    "bool": [True, False],
    "int8": [-127, 0, 7],
    "int16": [-32768, 3],
    "int32": [1, 2, 3],
    "int64": [1, 2, 3, 2**62],
    "float32": [0.0, 1.5, math.inf],
    "float64": [0.5, -1e300, math.nan],
    "string": ["", "a", "ab", 'q"u,o', "é\n"],
    "binary": [b"", b"\x00\xff", b"abc"],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)],
    "time": [time(0), time(23, 59, 59, 999999)],
    "timestamp": [datetime(1582, 10, 14), datetime(2024, 2, 29, 12, 30, 0, 5)],
}


def pool(column: Any) -> list[Any]:
    """The few values of a column, so that rows meet again."""
    kind = column.type
    if kind.name != "decimal":
        return POOLS[kind.name]
    unscaled = [0, 1, -(10**kind.precision - 1), 10 ** (kind.precision - 1)]
    return [Decimal((n < 0, tuple(map(int, str(abs(n)))), -kind.scale)) for n in unscaled]


def plain(value: Any) -> Any:
    """A value that is equal to itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


class RandomTables:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.spec = parse_spec(SPEC, "spec.yaml")
        self.rows: dict[str, Counter[Row]] = {r.name: Counter() for r in self.spec.relations}

    def row(self, relation: Relation) -> Row:
        chance = self.chance
        return tuple(
            None if column.nullable and chance.random() < 0.3 else chance.choice(pool(column))
            for column in relation.columns
        )

    def key(self, relation: Relation, row: Row) -> Row:
        names = [c.name for c in relation.columns]
        return tuple(row[names.index(name)] for name in relation.key)

    def whole(self, relation: Relation, most: int = 12) -> Counter[Row]:
        """A random table: some rows that are there, and some new ones."""
        there = list(self.rows[relation.name].elements())
        kept = self.chance.sample(there, self.chance.randint(0, len(there)))
        drawn = [*kept, *(self.row(relation) for _ in range(self.chance.randint(0, most)))]
        if not relation.key:
            return counted(drawn)
        by_key = {self.key(relation, row): row for row in drawn}
        return counted(by_key.values())

    def changes(self) -> dict[str, pa.Table]:
        """One commit, which the model has taken in."""
        made = {}
        for relation in self.chance.sample(self.spec.relations, self.chance.randint(1, 3)):
            made[relation.name] = as_table(relation, self._changes(relation))
        return made

    def _changes(self, relation: Relation) -> Iterator[tuple[str, Row]]:
        stored, chance = self.rows[relation.name], self.chance
        for _ in range(chance.randint(1, 8)):
            row = self.row(relation)
            if stored and chance.random() < 0.4:
                gone = chance.choice(list(stored.elements()))
                stored -= Counter([gone])
                self.rows[relation.name] = stored
                yield "delete", gone
            elif not relation.key:
                stored[canonical(row)] += 1
                yield "insert", row
            else:
                same = [old for old in stored if self.key(relation, old) == self.key(relation, row)]
                for old in same:
                    del stored[old]
                    yield "update_preimage", old
                stored[canonical(row)] = 1
                yield ("update_postimage" if same else "insert"), row


def canonical(row: Row) -> Row:
    return tuple(map(plain, row))


def counted(rows: Iterable[Row]) -> Counter[Row]:
    return Counter(map(canonical, rows))


def as_table(relation: Relation, changes: Iterable[tuple[str, Row]]) -> pa.Table:
    """Changes as a table with `_change_type`."""
    listed = list(changes)
    columns = as_columns(relation, (row for _, row in listed))
    return pa.table({**columns, "_change_type": [kind for kind, _ in listed]})


def as_columns(relation: Relation, rows: Iterable[Row]) -> dict[str, pa.Array]:
    """The columns of rows, whose NaN may be spelled out."""
    listed = list(rows)
    return {
        c.name: pa.array([math.nan if row[i] == "NaN" else row[i] for row in listed], arrow_type(c.type))
        for i, c in enumerate(relation.columns)
    }


def found_rows(batches: Iterable[pa.RecordBatch], relation: Relation) -> Counter[Row]:
    """What `dump` gave; every row has to come once."""
    found: Counter[Row] = Counter()
    for batch in batches:
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        for row in rows:
            values, copies = (row, 1) if relation.key else (row[:-1], row[-1])
            assert copies > 0 and canonical(values) not in found
            found[canonical(values)] = copies
    return found
