"""Random EXCEPT, INTERSECT and UNION, with and without ALL, nested, and IS NOT DISTINCT FROM; full of NULLs and copies.

Columns of one place have types that widen to one, so that any two queries of as many columns are united.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_outer_joins import drawn
from tests.engine.random_queries import Case, Drawn

FAMILIES = [
    ["int64", "int32", "int8", "decimal(9,2)"],
    ["decimal(9,2)", "decimal(12,4)", "int32", "decimal(25,3)"],
    ["string"],
    ["date"],
    ["float64", "float32"],
    ["int64", "int32"],
    ["decimal(38,2)", "decimal(38,6)", "decimal(30,12)", "int64"],
]
OPERATIONS = [
    "EXCEPT",
    "EXCEPT",
    "EXCEPT ALL",
    "EXCEPT ALL",
    "INTERSECT",
    "INTERSECT",
    "INTERSECT ALL",
    "INTERSECT ALL",
]
LITERALS = {"int": "1", "decimal": "1.5", "string": "'a'", "date": "DATE '2020-03-01'", "float": "1.0"}


def relations(chance: Random) -> tuple[Relation, ...]:
    families = [chance.choice(FAMILIES) for _ in range(2)]
    made = []
    for name in ("R", "V", "W"):
        columns = [
            Column(c, parse_type(chance.choice(family))[0], chance.random() < 0.6)
            for c, family in zip("ab", families, strict=True)
        ]
        made.append(Relation(name, tuple(columns)))
    return tuple(made)


class SetQuery:
    """Texts over some relations; a query of one column has `a`, one of two has `a` and `b`."""

    def __init__(self, chance: Random, spec: Sequence[Relation]) -> None:
        self.chance = chance
        self.relations = spec

    def _literal(self, column: str) -> str:
        kind = next(c.type for c in self.relations[0].columns if c.name == column)
        return next(v for k, v in LITERALS.items() if kind.name.startswith(k))

    def _typed(self, column: str) -> str:
        kind = next(c.type for c in self.relations[0].columns if c.name == column)
        value = self.chance.choice(["NULL", self._literal(column)])
        return f"CAST({value} AS {kind.sql})"

    def _where(self, columns: str, alias: str) -> str:
        chance, c = self.chance, self.chance.choice(columns)
        draw = chance.random()
        if draw < 0.6:
            return ""
        return " WHERE " + chance.choice(
            [
                f"{alias}.{c} IS NULL",
                f"{alias}.{c} >= {self._literal(c)}",
                f"{alias}.{c} IS DISTINCT FROM {self._literal(c)}",
            ]
        )

    def _joined(self, columns: str) -> str:
        """A SELECT over two relations that agree on a column, where NULL may be NULL's equal."""
        chance = self.chance
        left, right = (chance.choice(self.relations).name for _ in "xy")
        shown = ", ".join(f"{chance.choice('xy')}.{c} AS {c}" for c in columns)
        on = [f"x.{c} {chance.choice(['IS NOT DISTINCT FROM', 'IS NOT DISTINCT FROM', '='])} y.{c}" for c in "ab"]
        said = " AND ".join(on if chance.random() < 0.4 else [chance.choice(on)])
        style = chance.choice(["join", "join", "left", "exists", "not"])
        if style == "join" and chance.random() < 0.2:
            said = f"x.a {chance.choice(['<', '<=', '>'])} y.a"
        if style == "left":
            return f"SELECT {shown} FROM {left} AS x {chance.choice(['LEFT', 'FULL'])} JOIN {right} AS y ON {said}"
        if style == "join":
            return f"SELECT {shown} FROM {left} AS x, {right} AS y WHERE {said}"
        shown = ", ".join(f"x.{c} AS {c}" for c in columns)
        word = "NOT EXISTS" if style == "not" else "EXISTS"
        return f"SELECT {shown} FROM {left} AS x WHERE {word} (SELECT 1 FROM {right} AS y WHERE {said})"

    def select(self, columns: str, depth: int) -> str:
        chance, draw = self.chance, self.chance.random()
        name = chance.choice(self.relations).name
        listed = ", ".join(columns)
        if depth and draw < 0.3:
            return f"({self.operation(columns, depth - 1)})"
        if draw < 0.45:
            return self._joined(columns)
        if draw < 0.52:
            return f"SELECT a, {'MIN(b) AS b' if columns == 'ab' else 'COUNT(*) AS n'} FROM {name} GROUP BY a".replace(
                ", COUNT(*) AS n", "" if columns == "a" else ", COUNT(*) AS n"
            )
        if draw < 0.57 and columns == "ab":
            return f"SELECT a, NULL AS b FROM {name}"
        if draw < 0.62 and columns == "ab":
            return f"SELECT a, {self._literal('b')} AS b FROM {name}"
        if draw < 0.65:
            rows = [", ".join(self._typed(c) for c in columns) for _ in range(chance.choice([1, 1, 2]))]
            return f"SELECT {rows[0]}" if len(rows) == 1 else f"VALUES ({'), ('.join(rows)})"
        if depth and draw < 0.7:
            return f"SELECT {listed} FROM ({self.operation(columns, depth - 1)}) AS d"
        distinct = "DISTINCT " if chance.random() < 0.1 else ""
        return f"SELECT {distinct}{listed} FROM {name}{self._where(columns, name)}"

    def operation(self, columns: str, depth: int) -> str:
        chance = self.chance
        text = self.select(columns, depth)
        for _ in range(chance.choice([1, 1, 1, 2, 2, 3])):
            word = chance.choice([*OPERATIONS, "UNION", "UNION ALL"])
            text = f"{text} {word} {self.select(columns, depth)}"
        return text

    def text(self) -> str:
        chance, columns = self.chance, self.chance.choice(["a", "ab", "ab"])
        draw = chance.random()
        if draw < 0.25:
            return self._joined(columns)
        if draw < 0.35:
            inner = self.operation(columns, 1)
            return f"SELECT a, COUNT(*) AS n FROM ({inner}) AS d GROUP BY a"
        if draw < 0.45:
            word = chance.choice(["IN", "NOT IN"])
            return f"SELECT a, b FROM R WHERE a {word} ({self.operation('a', 0)})"
        if draw < 0.5:
            return f"WITH d AS ({self.operation(columns, 1)}) SELECT x.a FROM d AS x, d AS y WHERE x.a = y.a"
        return self.operation(columns, 2)


def set_operations_case(seed: int, queries: int = 3, batches: int = 4) -> Case:
    chance = Random(f"set operations {seed}")
    spec = Spec("spec.yaml", relations(chance), ())
    made: list[Drawn] = []
    refused = 0
    while len(made) < queries:
        query = drawn(spec, f"q{len(made)}", SetQuery(chance, spec.relations).text())
        made += [query] if query is not None else []
        refused += query is None
        assert refused < 40, "hardly any text is accepted"
    return Case(seed, spec, tuple(made), tuple(random_history(chance, spec, batches)))
