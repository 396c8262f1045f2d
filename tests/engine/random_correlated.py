"""Random queries with EXISTS, IN and their negations whose subqueries compare with what is around them."""

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

OPERATORS = ["=", "=", "=", "<", "<=", ">", ">=", "<>", "<>"]
KINDS = ["int64", "int64", "int64", "int32", "date", "string", "decimal(9,2)"]


def _relations(chance: Random) -> tuple[Relation, ...]:
    kind = parse_type(chance.choice(KINDS))[0]
    made = []
    for name in ("R", "V", "W", "U"):
        columns = tuple(Column(c, kind, chance.random() < 0.3) for c in "abc"[: chance.randint(1, 3)])
        made.append(Relation(name, columns))
    return tuple(made)


class _Query:
    def __init__(self, chance: Random, relations: tuple[Relation, ...]) -> None:
        self.chance = chance
        self.relations = relations
        self.outer = [chance.choice(relations) for _ in range(chance.choice([1, 1, 2]))]

    def _column(self, alias: str, relation: Relation) -> str:
        return f"{alias}.{self.chance.choice(relation.columns).name}"

    def _outside(self) -> str:
        at = self.chance.randrange(len(self.outer))
        return self._column(f"o{at}", self.outer[at])

    def _subquery(self, number: int) -> str:
        chance, relation = self.chance, self.chance.choice(self.relations)
        alias = f"s{number}"
        where = []
        for _ in range(chance.choice([1, 2, 2, 3])):
            other = self._outside()
            if relation.columns[0].type.is_integer and chance.random() < 0.2:
                other += chance.choice([" + 1", " - 1"])
            where.append(f"{self._column(alias, relation)} {chance.choice(OPERATORS)} {other}")
        source, negated = f"{relation.name} AS {alias}", chance.choice(["", "NOT ", "NOT "])
        if chance.random() < 0.3:
            inside, outside = self._column(alias, relation), self._outside()
            return f"{outside} {negated}IN (SELECT {inside} FROM {source} WHERE {' AND '.join(where)})"
        return f"{negated}EXISTS (SELECT 1 FROM {source} WHERE {' AND '.join(where)})"

    def text(self) -> str:
        chance = self.chance
        where = [self._subquery(i) for i in range(chance.choice([1, 1, 1, 2]))]
        for at in range(1, len(self.outer)):
            for _ in range(chance.choice([1, 1, 2])):
                mine, other = self._column(f"o{at}", self.outer[at]), self._column("o0", self.outer[0])
                where.append(f"{other} {chance.choice(OPERATORS)} {mine}")
        columns = [f"o{at}.{c.name}" for at, r in enumerate(self.outer) for c in r.columns]
        shown = chance.sample(columns, chance.randint(1, len(columns)))
        tables = ", ".join(f"{r.name} AS o{at}" for at, r in enumerate(self.outer))
        body = f"FROM {tables} WHERE {' AND '.join(where)}"
        if chance.random() < 0.2:
            return f"SELECT {shown[0]} AS g, COUNT(*) AS n {body} GROUP BY {shown[0]}"
        listed = ", ".join(f"{c} AS x{i}" for i, c in enumerate(shown))
        return f"SELECT {'DISTINCT ' if chance.random() < 0.2 else ''}{listed} {body}"


def _drawn(chance: Random, spec: Spec, name: str) -> Drawn:
    while True:
        text = _Query(chance, spec.relations).text()
        try:
            query = compile_query(spec, QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),)))
        except SpecError:
            continue
        program = program_of(query, spec)
        first = next(step.plan for step in program.steps if isinstance(step, Tree))
        shown = replace(first, query=program.form, order=())
        return Drawn(name, "sql", text, None, text, shown, program)


def correlated_case(seed: int, queries: int = 5, batches: int = 5) -> Case:
    chance = Random(f"correlated {seed}")
    spec = Spec("spec.yaml", _relations(chance), ())
    drawn = tuple(_drawn(chance, spec, f"q{i}") for i in range(queries))
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))
