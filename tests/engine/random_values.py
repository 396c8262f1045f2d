"""Random queries with conditions and expressions over several tables, and with subqueries as values, full of NULLs."""

from __future__ import annotations

from random import Random

from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_outer_joins import drawn
from tests.engine.random_queries import Case, Drawn

OPERATORS = ["=", "=", "<", "<=", ">", ">=", "<>"]


def relations(chance: Random) -> tuple[Relation, ...]:
    made = []
    for name in ("R", "S", "T"):
        has_key = chance.random() < 0.25
        first = Column("a", parse_type("int32")[0], not has_key and chance.random() < 0.4)
        # Where there is a key, a delete with NULL in another column goes by the key.
        nullable = [not has_key and chance.random() < 0.5 for _ in range(2)]
        others = [
            Column(c, parse_type("int32")[0], n) for c, n in zip("bc"[: chance.randint(1, 2)], nullable, strict=False)
        ]
        made.append(Relation(name, (first, *others), ("a",) if has_key else ()))
    return tuple(made)


class RandomSelect:
    """A SELECT in the making, around which others may stand; `inside` are the columns in sight, innermost first."""

    def __init__(self, chance: Random, spec: tuple[Relation, ...], values: float = 0.0) -> None:
        self.chance = chance
        self.relations = spec
        self.values = values
        self.count = 0

    def table(self) -> tuple[str, list[str]]:
        relation = self.chance.choice(self.relations)
        self.count += 1
        alias = f"t{self.count}"
        if self.values and self.chance.random() < 0.07:
            inside, columns = f"i{self.count}", [c.name for c in relation.columns]
            made = self.value([f"{inside}.{c}" for c in columns], 0)
            return f"(SELECT {inside}.a, {made} AS v FROM {relation.name} AS {inside}) AS {alias}", [
                f"{alias}.a", f"{alias}.v"
            ]  # fmt: skip
        return f"{relation.name} AS {alias}", [f"{alias}.{c.name}" for c in relation.columns]

    def tables(self, many: int) -> tuple[str, list[str], list[str]]:
        """FROM, the columns, and conditions that join."""
        text, columns = self.table()
        joins: list[str] = []
        for _ in range(many - 1):
            other, more = self.table()
            draw = self.chance.random()
            if draw < 0.25:
                text += f" LEFT JOIN {other} ON {self.chance.choice(columns)} = {self.chance.choice(more)}"
            else:
                text += f", {other}"
                if draw < 0.85:
                    joins.append(f"{self.chance.choice(columns)} = {self.chance.choice(more)}")
            columns = columns + more
        return text, columns, joins

    def number(self, columns: list[str], depth: int) -> str:
        """An expression of numbers over columns."""
        chance, draw = self.chance, self.chance.random()
        if depth and draw < 0.15 * (self.values > 0):
            return self.value(columns, depth - 1)
        if draw < 0.55:
            return chance.choice(columns)
        if draw < 0.65:
            return str(chance.randint(0, 3))
        a, b = chance.choice(columns), chance.choice(columns)
        return chance.choice([
            f"{a}::BIGINT + {b}", f"{a}::BIGINT - {b}", f"coalesce({a}, {b})", f"coalesce({a}, 1)::BIGINT + {b}",
            f"CASE WHEN {self.condition(columns, 0)} THEN {a} ELSE {b} END", f"greatest({a}, {b})",
        ])  # fmt: skip

    def condition(self, columns: list[str], depth: int) -> str:
        chance, draw = self.chance, self.chance.random()
        if depth and draw < self.values:
            return self.of_subquery(columns, depth - 1)
        if depth and draw < self.values + 0.3:
            sides = [self.condition(columns, depth - 1) for _ in range(chance.choice([2, 2, 3]))]
            return f"({chance.choice([' OR ', ' OR ', ' AND ']).join(sides)})"
        if depth and draw < self.values + 0.36:
            return f"NOT ({self.condition(columns, depth - 1)})"
        if draw > 0.93:
            return f"{chance.choice(columns)} IS {chance.choice(['', 'NOT '])}NULL"
        return f"{self.number(columns, depth)} {chance.choice(OPERATORS)} {self.number(columns, depth)}"

    def inner(self, columns: list[str], depth: int) -> tuple[str, list[str]]:
        """FROM and WHERE of a subquery, and its own columns; mostly correlated."""
        chance = self.chance
        text, own, where = self.tables(chance.choice([1, 1, 1, 2]))
        if chance.random() < 0.7:
            where.append(f"{chance.choice(own)} = {chance.choice(columns)}")
        if chance.random() < 0.25:
            where.append(f"{chance.choice(own)} {chance.choice(OPERATORS)} {chance.choice(columns)}")
        if chance.random() < 0.3:
            where.append(self.condition(own if chance.random() < 0.7 else own + columns, depth))
        return f"FROM {text}{' WHERE ' if where else ''}{' AND '.join(where)}", own

    def aggregate(self, own: list[str]) -> str:
        chance = self.chance
        return chance.choice([
            "COUNT(*)", f"COUNT({chance.choice(own)})", f"SUM({chance.choice(own)})", f"MIN({chance.choice(own)})",
            f"MAX({chance.choice(own)})::BIGINT + 1", f"coalesce(SUM({chance.choice(own)}), 0)",
            f"COUNT(DISTINCT {chance.choice(own)})", f"MAX({self.number(own, 0)})",
        ])  # fmt: skip

    def over_rows(self, columns: list[str]) -> str:
        """An aggregate over rows, which may have a subquery each."""
        draw = self.chance.random()
        if draw > 2 * self.values or draw > 0.3:
            return self.aggregate(columns)
        if draw < 0.15:
            return f"MAX({self.value(columns, 0)})"
        return f"COUNT(*) FILTER (WHERE {self.of_subquery(columns, 0)})"

    def value(self, columns: list[str], depth: int) -> str:
        body, own = self.inner(columns, depth)
        return f"(SELECT {self.aggregate(own)} {body})"

    def of_subquery(self, columns: list[str], depth: int) -> str:
        chance, draw = self.chance, self.chance.random()
        body, own = self.inner(columns, depth)
        if draw < 0.3:
            return f"{chance.choice(['', 'NOT '])}EXISTS (SELECT 1 {body})"
        compared = self.number(columns, 0)
        if draw < 0.6:
            return f"{compared} {chance.choice(['', 'NOT '])}IN (SELECT {chance.choice(own)} {body})"
        if draw < 0.75:
            quantifier = chance.choice(["ALL", "ANY"])
            return f"{compared} {chance.choice(OPERATORS)} {quantifier} (SELECT {chance.choice(own)} {body})"
        return f"{compared} {chance.choice(OPERATORS)} (SELECT {self.aggregate(own)} {body})"

    def text(self) -> str:
        chance = self.chance
        body, columns, where = self.tables(chance.choice([1, 2, 2] if self.values else [2, 2, 3]))
        depth = chance.choice([1, 1, 2])
        where += [self.condition(columns, depth) for _ in range(chance.choice([1, 1, 1, 2]))]
        body = f"FROM {body} WHERE {' AND '.join(where)}"
        draw = chance.random()
        if draw < 0.4:
            key = chance.choice(columns) if chance.random() < 0.6 else self.number(columns, 0)
            key = f"{chance.choice(columns)}::BIGINT + 0" if key.isdigit() else key
            having = ""
            if chance.random() < 0.4:
                right = self.value([key if "." in key and " " not in key else "1"], 0) if self.values else "1"
                having = f" HAVING {self.aggregate(columns)} {chance.choice(OPERATORS)} {right}"
            return f"SELECT {key} AS g, {self.over_rows(columns)} AS x {body} GROUP BY {key}{having}"
        if draw < 0.5:
            return f"SELECT {self.over_rows(columns)} AS x, COUNT(*) AS n {body}"
        if draw < 0.53 and self.values:
            return f"SELECT {self.value(columns, 0)} AS g, {self.aggregate(columns)} AS x {body} GROUP BY g"
        shown = [self.number(columns, depth) for _ in range(chance.choice([1, 2, 3]))]
        shown = [f"{s} AS x{i}" for i, s in enumerate(shown)]
        return f"SELECT {'DISTINCT ' if draw < 0.6 else ''}{', '.join(shown)} {body}"


def _case(kind: str, seed: int, values: float, queries: int, batches: int) -> Case:
    chance = Random(f"{kind} {seed}")
    spec = Spec("spec.yaml", relations(chance), ())
    made: list[Drawn] = []
    while len(made) < queries:
        query = drawn(spec, f"q{len(made)}", RandomSelect(chance, spec.relations, values).text())
        made += [query] if query is not None else []
    return Case(seed, spec, tuple(made), tuple(random_history(chance, spec, batches)))


def mixed_case(seed: int, queries: int = 2, batches: int = 4) -> Case:
    """Conditions, groups and columns over several tables."""
    return _case("mixed", seed, 0.0, queries, batches)


def value_case(seed: int, queries: int = 2, batches: int = 4) -> Case:
    """Subqueries as values, and conditions with subqueries inside expressions."""
    return _case("values", seed, 0.45, queries, batches)
