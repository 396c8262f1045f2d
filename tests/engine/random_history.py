"""Random histories: batches of changes that fit the relations of a spec, and some that never do.

Values are skewed towards the first of a small domain, so that rows repeat, joins meet, and the values
that types are known for (NULL, NaN, -0.0, the empty string) are frequent. Whoever runs a history leaves
out what does not apply, so that every part of a history is a history too and a failing one can be cut down.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any, Literal

from dynq_cli.query.normal_form import OutputColumn
from dynq_cli.spec.model import Column, Relation, Spec

Row = tuple[Any, ...]
Bad = Literal["", "missing", "twice", "null", "range", "kind", "count"]
BAD: tuple[Bad, ...] = ("missing", "twice", "null", "range", "kind", "count")

DOMAINS: dict[str, list[Any]] = {
    "int": [0, 1, 2, 3, -1, 7, 100],
    "decimal": [Decimal(0), Decimal(1), Decimal("1.5"), Decimal(2), Decimal("-1"), Decimal("0.1"), Decimal(3)],
    "float": [0.0, 1.0, -0.0, float("nan"), float("inf"), -1.5, float("-inf"), 0.25],
    "string": ["a", "b", "", "ab", "Abc", "ü€𝄞", "it's", "a" * 40],
    "binary": [b"", b"\x00", b"a", b"\x00\xff", b"ab"],
    "bool": [True, False],
    "date": [date(2020, 2, 29), date(2020, 3, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "time": [time(0), time(12, 30), time(23, 59, 59, 999999)],
    "timestamp": [datetime(2020, 2, 29, 12), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2020, 3, 1)],
}
LARGE: dict[str, list[Any]] = {
    "int64": [2**40, -(2**62)],
    "decimal(25,3)": [Decimal(10**21), Decimal("-99999999999999999999.125")],
}


@dataclass(frozen=True)
class Change:
    relation: str
    kind: Literal["insert", "delete", "update_preimage", "update_postimage"]
    row: Row
    copies: int = 1


@dataclass(frozen=True)
class Batch:
    """One commit; `bad` names what is wrong with `rejected`, which is tried first and must change nothing."""

    changes: tuple[Change, ...]
    relations: tuple[str, ...]
    bad: Bad = ""
    rejected: tuple[Change, ...] = ()


def kind_of(column: Column | OutputColumn) -> str:
    return "int" if column.type.is_integer else "float" if column.type.is_float else column.type.name


def value_of(chance: Random, column: Column | OutputColumn) -> Any:
    """Skewed towards the first values of a small domain, so that rows repeat and joins meet."""
    if column.nullable and chance.random() < 0.2:
        return None
    large = LARGE.get(str(column.type))
    if large and chance.random() < 0.08:
        return chance.choice(large)
    domain = DOMAINS[kind_of(column)]
    return domain[min(int(chance.expovariate(0.7)), len(domain) - 1)]


def random_history(chance: Random, spec: Spec, many: int) -> list[Batch]:
    stored: dict[str, list[Row]] = {r.name: [] for r in spec.relations}
    made = []
    for _ in range(many):
        least = 0 if chance.random() < 0.1 else 1
        relations = chance.sample(spec.relations, chance.randint(least, len(spec.relations)))
        changes = [c for r in relations for c in _changes(chance, r, stored[r.name])]
        bad: Bad = chance.choice(BAD) if chance.random() < 0.4 else ""
        rejected = _rejected(chance, spec, bad) if bad else ()
        made.append(Batch(tuple(changes), tuple(r.name for r in relations), bad if rejected else "", rejected))
    return made


def _changes(chance: Random, relation: Relation, stored: list[Row]) -> list[Change]:
    made: list[Change] = []
    draw = [tuple(value_of(chance, c) for c in relation.columns) for _ in range(chance.choice([0, 1, 2, 5, 9]))]
    for row in draw:
        style = chance.random()
        if stored and style < 0.35 + 0.03 * len(stored):
            gone = stored.pop(chance.randrange(len(stored)))
            if chance.random() < 0.35:
                columns = zip(relation.columns, gone, row, strict=True)
                new = tuple(old if c.name in relation.key else v for c, old, v in columns)
                made += [Change(relation.name, "update_preimage", gone), Change(relation.name, "update_postimage", new)]
                stored.append(new)
            else:
                made.append(Change(relation.name, "delete", gone))
        elif style > 0.93:
            made += [Change(relation.name, "insert", row), Change(relation.name, "delete", row)]
        else:
            copies = 1 if relation.key else chance.choice([1, 1, 1, 2, 3])
            made.append(Change(relation.name, "insert", row, copies))
            stored += [row] * copies
    return made


def _rejected(chance: Random, spec: Spec, bad: Bad) -> tuple[Change, ...]:
    """Changes that can never be applied, whatever is stored, behind some that could be."""
    relation = chance.choice(spec.relations)
    row = [value_of(chance, c) for c in relation.columns]
    at = chance.randrange(len(row))
    column = relation.columns[at]
    before = [c for r in spec.relations if r != relation for c in _changes(chance, r, []) if c.kind == "insert"]
    if bad == "twice" and not relation.key:
        return ()
    if bad == "null":
        if column.nullable:
            return ()
        row[at] = None
    if bad == "range":
        if column.type.name not in ("int8", "int16", "int32"):
            return ()
        row[at] = 2**40
    wrong = Change(relation.name, "insert", tuple(row))
    if bad == "missing":
        wrong = Change(relation.name, "delete", tuple(row), 10**6)
    return (*before, wrong, wrong) if bad == "twice" else (*before, wrong)
