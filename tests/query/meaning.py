"""Small random databases, and whether two SELECTs give the same rows on them."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

import duckdb

from dynq_cli.spec.model import Column, QuerySpec, Relation, Semantics, Spec, Text
from dynq_cli.spec.types import parse_type

_RELATIONS = {
    "r": "a int64, b int64?, c string, d date, t timestamp, f float64?, m decimal(10;2), k bool?",
    "s": "a int64, b int32?, c string?, d date?, t timestamp?, f float64, m decimal(12;3)?",
    "u": "a int64, x int64?, y int64",
    "w": "x int64, y int64",
}


def _columns(text: str) -> dict[str, str]:
    pairs = (column.split(maxsplit=1) for column in text.split(", "))
    return {name: kind.replace(";", ",") for name, kind in pairs}


def make_spec() -> Spec:
    relations = []
    for name, columns in _RELATIONS.items():
        made = tuple(Column(c, *parse_type(t)) for c, t in _columns(columns).items())
        relations.append(Relation(name, made))
    return Spec("spec.yaml", tuple(relations), ())


def make_query(sql: str, semantics: Semantics | None = None) -> QuerySpec:
    return QuerySpec("q", "sql", (Text(sql, "spec.yaml", ((0, 1, 1),)),), semantics)


def _value(chance: random.Random, text: str) -> object:
    kind, nullable = parse_type(text)
    if nullable and chance.random() < 0.25:
        return None
    if kind.is_integer:
        return chance.randint(-2, 5)
    if kind.name == "decimal":
        return Decimal(chance.randint(-300, 500)).scaleb(-kind.scale)
    if kind.is_float:
        return chance.choice([-1.5, 0.0, 0.25, 1.0, 2.0, 3.5])
    if kind.name == "string":
        return chance.choice(["", "a", "ab", "b", "Abc", "100%", "it's"])
    if kind.name == "bool":
        return chance.random() < 0.5
    day = date(2020, 2, 27) + timedelta(days=chance.randint(0, 5))
    if kind.name == "date":
        return day
    return datetime(day.year, day.month, 1) + timedelta(minutes=30 * chance.randint(0, 8))


@lru_cache(maxsize=64)
def database(seed: int) -> duckdb.DuckDBPyConnection:
    """Tables of up to nine rows; small domains, so that joins meet and rows repeat."""
    chance = random.Random(seed)
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    for name, text in _RELATIONS.items():
        columns = _columns(text)
        typed = ", ".join(f'"{c}" {parse_type(t)[0].sql}' for c, t in columns.items())
        connection.execute(f'CREATE TABLE "{name}" ({typed})')
        rows = [[_value(chance, t) for t in columns.values()] for _ in range(chance.choice([0, 3, 6, 9]))]
        if rows:
            connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', rows)
    return connection


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> Counter[tuple[object, ...]]:
    """The bag of result rows; floats to nine digits, since sums may be taken in another order."""
    return Counter(tuple(_plain(v) for v in row) for row in connection.execute(sql).fetchall())


def _plain(value: object) -> object:
    if isinstance(value, float):
        return round(value, 9) + 0.0
    return value
