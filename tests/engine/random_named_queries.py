"""Random queries that read other queries of the spec: groups, joins, sets, unions, first rows and chains of these."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.query.normal_form import Query
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_queries import Case, Drawn


def _relations(chance: Random) -> tuple[Relation, ...]:
    number = parse_type(chance.choice(["int64", "int32", "decimal(9,2)"]))[0]
    return tuple(
        Relation(name, tuple(Column(c, number, chance.random() < 0.5) for c in "abc"), ("a",) * (name == "K"))
        if name != "K"
        else Relation(name, (Column("a", number), Column("b", number, True), Column("c", number, True)), ("a",))
        for name in ("R", "S", "K")
    )


def _first(chance: Random) -> str:
    """A query over relations."""
    x, y = (chance.choice("RSK") for _ in "xy")
    return chance.choice(
        [
            f"SELECT a, b FROM {x} WHERE b IS NOT NULL",
            f"SELECT x.a, y.b, x.c + 1 AS d FROM {x} AS x, {y} AS y WHERE x.a = y.a",
            f"SELECT x.a, y.b FROM {x} AS x, {y} AS y WHERE x.a < y.a",
            f"SELECT a, COUNT(*) AS n, SUM(b) AS s FROM {x} GROUP BY a",
            f"SELECT a, SUM(b) AS s FROM {x} GROUP BY a HAVING COUNT(*) > 1",
            f"SELECT a, AVG(b) AS v, MAX(c) AS m FROM {x} GROUP BY a",
            f"SELECT COUNT(*) AS n, MIN(a) AS l FROM {x}",
            f"SELECT DISTINCT a, b FROM {x}",
            f"SELECT x.a FROM {x} AS x, {y} AS y WHERE x.b = y.b AND x.a = y.c",
            f"SELECT a FROM {x} UNION SELECT b FROM {y}",
            f"SELECT a, b FROM {x} UNION ALL SELECT b, c FROM {y}",
            f"SELECT a FROM {x} EXCEPT SELECT b FROM {y}",
            f"SELECT a, b, c FROM {x} ORDER BY a, b, c LIMIT 3",
            f"SELECT x.a, y.c FROM {x} AS x LEFT JOIN {y} AS y ON x.a = y.b",
            f"SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b) AS r FROM {x}",
            f"SELECT a FROM {x} WHERE NOT EXISTS (SELECT 1 FROM {y} AS y WHERE y.b = {x}.a)",
        ]
    )


def _over(chance: Random, known: list[tuple[str, int]]) -> str:
    """A query over others, of which the number of columns is known."""
    (x, many), (y, others) = (chance.choice(known) for _ in "xy")
    columns = [f"c{i}" for i in range(many)]
    first = f"{x} AS x({', '.join(columns)})"
    second = f"{y} AS y({', '.join(f'd{i}' for i in range(others))})"
    c, d = chance.choice(columns), f"d{chance.randrange(others)}"
    listed = ", ".join(columns)
    return chance.choice(
        [
            f"SELECT {listed} FROM {first} WHERE {c} IS NOT NULL",
            f"SELECT {c}, COUNT(*) AS n, MIN({chance.choice(columns)}) AS m FROM {first} GROUP BY {c}",
            f"SELECT SUM({c}) AS s, COUNT(*) AS n FROM {first}",
            f"SELECT DISTINCT {c} FROM {first}",
            f"SELECT {c}, {d} FROM {first}, {second} WHERE {c} = {d}",
            f"SELECT {c}, {d} FROM {first} LEFT JOIN {second} ON {c} = {d}",
            f"SELECT {c}, a, b FROM {first}, R WHERE {c} = R.a",
            f"SELECT {c} FROM {first} WHERE {c} NOT IN (SELECT {d} FROM {second})",
            f"SELECT {c} FROM {first} WHERE EXISTS (SELECT 1 FROM {second} WHERE {d} = {c})",
            f"SELECT {c} FROM {first} UNION ALL SELECT {d} FROM {second}",
            f"SELECT {c} FROM {first} INTERSECT SELECT {d} FROM {second}",
            f"SELECT {listed} FROM {first} ORDER BY {listed} LIMIT 2",
            f"WITH w AS (SELECT {c} AS k, COUNT(*) AS n FROM {first} GROUP BY {c}) "
            f"SELECT k, n, d0 FROM w, {second} WHERE n = d0",
        ]
    )


def named_queries_case(seed: int, queries: int = 5, batches: int = 4) -> Case:
    chance = Random(f"named queries {seed}")
    spec = Spec("spec.yaml", _relations(chance), ())
    made: list[tuple[QuerySpec, str]] = []
    known: list[tuple[str, int]] = []
    while len(made) < queries:
        text = _first(chance) if len(made) < 2 else _over(chance, known)
        name = f"q{len(made)}"
        written = QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),))
        try:
            query = compile_query(replace(spec, queries=(*spec.queries, written)), written)
        except SpecError:
            continue
        oracle = ", ".join(f"{q.name} AS ({t})" for q, t in made)
        made.append((written, f"WITH {oracle} SELECT * FROM ({text})" if oracle else text))
        known.append((name, len(query.columns)))
        # Queries may stand before those that they read.
        spec = replace(spec, queries=tuple(q for q, _ in made))
    drawn = [_drawn(spec, compile_query(spec, written), oracle, written.texts[0].value) for written, oracle in made]
    chance.shuffle(drawn)
    return Case(seed, spec, tuple(drawn), tuple(random_history(chance, spec, batches)))


def _drawn(spec: Spec, query: Query, oracle: str, text: str) -> Drawn:
    program = program_of(query, spec)
    first = next(step.plan for step in program.steps if isinstance(step, Tree))
    return Drawn(query.name, "sql", text, None, oracle, replace(first, query=program.form, order=()), program)
