"""Random ROLLUP, CUBE and GROUPING SETS: over joins and derived tables, with GROUPING, HAVING, windows and LIMIT."""

from __future__ import annotations

from random import Random

from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_outer_joins import drawn
from tests.engine.random_queries import Case, Drawn


def _relations(chance: Random) -> tuple[Relation, ...]:
    kinds = ["int64", "int32", "string", "date", "decimal(9,2)", "decimal(25,3)"]
    number = Column("v", parse_type(chance.choice(["int64", "decimal(9,2)"]))[0], chance.random() < 0.5)
    columns = [Column(c, parse_type(chance.choice(kinds))[0], chance.random() < 0.6) for c in "abc"]
    other = [
        Column("a", columns[0].type, chance.random() < 0.5),
        Column("d", parse_type(chance.choice(kinds))[0], True),
    ]
    return Relation("R", (*columns, number)), Relation("S", tuple(other))


class _Groups:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.body, self.keys = chance.choice(
            [
                ("R", ["a", "b", "c"]),
                ("R", ["a", "b", "c"]),
                ("R, S WHERE R.a = S.a", ["R.a", "b", "d"]),
                ("R LEFT JOIN S ON R.a = S.a", ["R.a", "b", "d"]),
                ("(SELECT a, b, MAX(c) AS c, COUNT(*) AS v FROM R GROUP BY a, b) AS g", ["a", "b", "c"]),
                ("R WHERE c IS NOT NULL", ["a", "b", "coalesce(b, b)"]),
            ]
        )

    def sets(self) -> str:
        chance, keys = self.chance, list(self.keys)
        chance.shuffle(keys)
        x, y, z = keys
        return chance.choice(
            [
                f"ROLLUP ({x}, {y})", f"ROLLUP ({x}, {y}, {z})", f"CUBE ({x}, {y})", f"CUBE ({x})", f"ROLLUP ({x})",
                f"GROUPING SETS (({x}, {y}), {z}, ())", f"{x}, ROLLUP ({y}, {z})", f"ROLLUP (({x}, {y}), {z})",
                f"GROUPING SETS ({x}, {x}, ({y}))", f"GROUPING SETS (ROLLUP ({x}), CUBE ({y}))", "()",
                f"GROUPING SETS ({x}, {y}), GROUPING SETS ({z}, ())",
            ]
        )  # fmt: skip

    def text(self) -> str:
        chance, sets = self.chance, self.sets()
        used = [k for k in self.keys if k in sets.replace("(", " ").replace(")", " ").replace(",", " ").split()]
        used += [k for k in self.keys if "coalesce" in k and k in sets]
        shown = chance.sample(used, chance.randint(0, len(used)))
        items = [f"{k} AS k{i}" for i, k in enumerate(shown)]
        items += chance.sample(
            ["COUNT(*) AS n", "SUM(v) AS s", "COUNT(v) AS m", "MIN(v) AS l", "COUNT(DISTINCT v) AS d"],
            chance.randint(0, 2),
        )
        if used and chance.random() < 0.5:
            items.append(f"GROUPING({', '.join(chance.sample(used, chance.randint(1, len(used))))}) AS g")
        if used and chance.random() < 0.3:
            items.append(f"CASE WHEN GROUPING({used[0]}) = 0 THEN {used[0]} END AS e")
        if shown and chance.random() < 0.2:
            items.append(f"{shown[0]} IS NULL AS missing")
        if not items:
            items = ["COUNT(*) AS n"]
        names = [item.split()[-1] for item in items]
        having = chance.choice(["", "", "", " HAVING COUNT(*) > 1"])
        if used and chance.random() < 0.15:
            having = f" HAVING GROUPING({used[-1]}) = 1 OR {used[-1]} IS NOT NULL"
        if used and chance.random() < 0.2:
            part = chance.choice([f"PARTITION BY GROUPING({used[0]}) ", "", f"PARTITION BY {used[-1]} "])
            items.append(f"rank() OVER ({part}ORDER BY COUNT(*)) AS r")
        elif chance.random() < 0.2:
            having += f" ORDER BY {', '.join(names)} LIMIT {chance.randint(1, 5)}"
        distinct = "DISTINCT " if chance.random() < 0.15 else ""
        text = f"SELECT {distinct}{', '.join(items)} FROM {self.body} GROUP BY {sets}{having}"
        if chance.random() < 0.15:
            return f"SELECT {names[0]}, COUNT(*) AS copies FROM ({text}) AS t GROUP BY {names[0]}"
        if chance.random() < 0.1:
            return f"({text}) UNION ALL ({text})"
        return text


def grouping_sets_case(seed: int, queries: int = 3, batches: int = 4) -> Case:
    chance = Random(f"grouping sets {seed}")
    spec = Spec("spec.yaml", _relations(chance), ())
    made: list[Drawn] = []
    refused: list[str] = []
    while len(made) < queries:
        text = _Groups(chance).text()
        query = drawn(spec, f"q{len(made)}", text)
        made += [query] if query is not None else []
        refused += [text] if query is None else []
        assert len(refused) < 40, f"hardly any text is accepted: {refused}"
    return Case(seed, spec, tuple(made), tuple(random_history(chance, spec, batches)))
