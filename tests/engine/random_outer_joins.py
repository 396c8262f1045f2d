"""Random outer joins, full of NULLs: chains, brackets, derived tables, self-joins, WHERE, GROUP BY and DISTINCT."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_queries import Case, Drawn

JOINS = ["LEFT", "LEFT", "LEFT", "LEFT", "RIGHT", "FULL", "INNER"]
OPERATORS = ["=", "=", "=", "=", "=", "<", ">=", "<>"]
LITERALS = {"int64": "1", "int32": "1", "date": "DATE '2020-03-01'", "string": "'a'", "decimal(9,2)": "1.5"}
WHERE = [
    "{c} IS NULL", "{c} IS NULL", "{c} IS NOT NULL", "({c} IS NULL OR {c} = {v})", "coalesce({c}, {v}) = {v}",
    "{c} >= {v}", "CASE WHEN {c} IS NULL THEN TRUE ELSE {c} <> {v} END",
]  # fmt: skip


def relations(chance: Random) -> tuple[Relation, ...]:
    """Relations whose columns have one type, so that any two join; some have a key."""
    kind = parse_type(chance.choice(["int64", "int64", "int64", "int32", "date", "string", "decimal(9,2)"]))[0]
    made = []
    for name in ("R", "V", "W", "U"):
        has_key = chance.random() < 0.25
        columns = [Column("a", kind, not has_key and chance.random() < 0.4)]
        columns += [Column(c, kind, chance.random() < 0.4) for c in "bc"[: chance.randint(0, 2)]]
        made.append(Relation(name, tuple(columns), ("a",) if has_key else ()))
    return tuple(made)


class RandomFrom:
    """A FROM in the making; `columns` are those in sight."""

    def __init__(self, chance: Random, spec: tuple[Relation, ...]) -> None:
        self.chance = chance
        self.relations = spec
        self.count = 0
        self.literal = LITERALS[str(spec[0].columns[0].type)]

    def _alias(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def table(self, depth: int) -> tuple[str, list[str]]:
        chance, draw = self.chance, self.chance.random()
        if depth and draw < 0.25:
            text, columns = self.joined(depth - 1, chance.choice([1, 1, 2]))
            return f"({text})", columns
        relation, alias = chance.choice(self.relations), self._alias()
        first = relation.columns[0].name
        if draw < 0.35:
            what = chance.choice([
                f"SELECT {first} AS g, COUNT(*) AS n FROM {relation.name} GROUP BY {first}",
                f"SELECT DISTINCT {first} AS g FROM {relation.name}",
                f"SELECT {first} AS g, 1 AS one FROM {relation.name} WHERE {first} >= {self.literal}",
            ])  # fmt: skip
            return f"({what}) AS {alias}", [f"{alias}.g"]
        return f"{relation.name} AS {alias}", [f"{alias}.{c.name}" for c in relation.columns]

    def joined(self, depth: int, joins: int) -> tuple[str, list[str]]:
        text, columns = self.table(depth)
        for _ in range(joins):
            other, more = self.table(depth)
            text = f"{text} {self.chance.choice(JOINS)} JOIN {other} ON {self._on(columns, more)}"
            columns = columns + more
        return text, columns

    def _on(self, left: list[str], right: list[str]) -> str:
        chance = self.chance
        said = [f"{chance.choice(left)} = {chance.choice(right)}"] if chance.random() < 0.93 else []
        if chance.random() < 0.25:
            said.append(f"{chance.choice(left)} {chance.choice(OPERATORS)} {chance.choice(right)}")
        for side in (left, right):
            if chance.random() < 0.15:
                said.append(
                    chance.choice(["{c} >= {v}", "{c} IS NULL", "{c} = {v}"]).format(
                        c=chance.choice(side), v=self.literal
                    )
                )
        return " AND ".join(said) or "TRUE"


def _text(chance: Random, spec: tuple[Relation, ...]) -> str:
    made = RandomFrom(chance, spec)
    text, columns = made.joined(chance.choice([0, 0, 1, 1, 2]), chance.choice([1, 1, 1, 2, 2, 3]))
    where = [
        chance.choice(WHERE).format(c=chance.choice(columns), v=made.literal)
        for _ in range(chance.choice([0, 0, 0, 1, 1, 2]))
    ]
    if chance.random() < 0.1:
        relation = chance.choice(spec)
        inner = f"{relation.columns[0].name} = {chance.choice(columns)}"
        where.append(
            f"{chance.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {relation.name} WHERE {relation.name}.{inner})"
        )
    body = f"FROM {text}{' WHERE ' if where else ''}{' AND '.join(where)}"
    shown = chance.sample(columns, chance.randint(1, min(4, len(columns))))
    if chance.random() < 0.25:
        value = chance.choice(columns)
        aggregates = chance.sample(
            [f"COUNT({value}) AS n", "COUNT(*) AS m", f"MIN({value}) AS s", f"COUNT(DISTINCT {value}) AS d"], 2
        )
        return f"SELECT {shown[0]} AS g, {', '.join(aggregates)} {body} GROUP BY {shown[0]}"
    if chance.random() < 0.15:
        return f"SELECT COUNT({shown[0]}) AS n, COUNT(*) AS m {body}"
    if chance.random() < 0.2:
        shown[0] = f"coalesce({shown[0]}, {made.literal})"
    listed = ", ".join(f"{c} AS x{i}" for i, c in enumerate(shown))
    return f"SELECT {'DISTINCT ' if chance.random() < 0.2 else ''}{listed} {body}"


def drawn(spec: Spec, name: str, text: str) -> Drawn | None:
    """The query of a text; None if it is refused."""
    try:
        query = compile_query(spec, QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),)))
    except SpecError:
        return None
    program = program_of(query, spec)
    first = next(step.plan for step in program.steps if isinstance(step, Tree))
    return Drawn(name, "sql", text, None, text, replace(first, query=program.form, order=()), program)


def outer_join_case(seed: int, queries: int = 2, batches: int = 4) -> Case:
    chance = Random(f"outer joins {seed}")
    spec = Spec("spec.yaml", relations(chance), ())
    made: list[Drawn] = []
    while len(made) < queries:
        query = drawn(spec, f"q{len(made)}", _text(chance, spec.relations))
        made += [query] if query is not None else []
    return Case(seed, spec, tuple(made), tuple(random_history(chance, spec, batches)))
