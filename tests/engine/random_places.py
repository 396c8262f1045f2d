"""Random queries whose rows are chosen or computed by their places: LIMIT, DISTINCT ON, QUALIFY, window functions.

The text that dynq gets leaves ties open. The oracle's completes each order by the columns of the rows, as dynq does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_queries import Case, Drawn

KINDS = ["int64", "int64", "int64", "string", "date", "decimal(9,2)", "decimal(25,3)", "float64", "binary"]
NULLS = ["", "", "", " NULLS FIRST", " NULLS LAST"]
Texts = tuple[str, str]


def _relations(chance: Random) -> tuple[Relation, ...]:
    shared = Column("a", parse_type("int64")[0], chance.random() < 0.4)
    made = []
    for name in ("R", "V"):
        others = [
            Column(c, parse_type(chance.choice(KINDS))[0], chance.random() < 0.4) for c in "bcd"[: chance.randint(1, 3)]
        ]
        # Copies of one row may go by any of several orders: rows of V have a key.
        key = (Column("k", parse_type("int64")[0]),) if name == "V" else ()
        made.append(Relation(name, (shared, *key, *others), key=tuple(c.name for c in key)))
    return tuple(made)


def _completed(keys: Sequence[str], columns: Sequence[str]) -> Texts:
    """An ORDER BY as it is asked for, and with every column behind."""
    return f"ORDER BY {', '.join(keys)}", f"ORDER BY {', '.join([*keys, *columns])}"


class _Query:
    def __init__(self, chance: Random, relations: tuple[Relation, ...]) -> None:
        self.chance = chance
        self.relations = relations
        self.relation = chance.choice(relations)
        self.names = [c.name for c in self.relation.columns]
        self.numbers = [c.name for c in self.relation.columns if c.type.is_numeric and not c.type.is_float]

    def keys(self, names: Sequence[str], least: int = 1) -> list[str]:
        chance = self.chance
        chosen = chance.sample(names, chance.randint(least, min(2, len(names))))
        return [f"{name}{chance.choice(['', '', ' DESC'])}{chance.choice(NULLS)}" for name in chosen]

    def limit(self) -> str:
        chance = self.chance
        return f"LIMIT {chance.choice([0, 1, 2, 3, 5])}" + chance.choice(["", "", f" OFFSET {chance.randint(0, 3)}"])

    def first(self) -> Texts:
        """The first rows of a relation, a join, groups, or distinct rows."""
        chance, style = self.chance, self.chance.choice(["plain", "hidden", "join", "groups", "distinct", "where"])
        if style == "join":
            columns = [f"R.{c.name} AS r{c.name}" for c in self.relations[0].columns]
            columns += [f"V.{c.name} AS v{c.name}" for c in self.relations[1].columns[1:]]
            shown = [c.split()[-1] for c in columns]
            asked, whole = _completed(self.keys(shown), shown)
            body = f"SELECT {', '.join(columns)} FROM R, V WHERE R.a = V.a"
        elif style == "groups":
            key = chance.choice(self.names)
            made = chance.choice(["COUNT(*)", f"COUNT(DISTINCT {self.names[-1]})", f"SUM({self.numbers[0]})"])
            asked, whole = _completed(self.keys([key, "n"]), [key, "n"])
            body = f"SELECT {key}, {made} AS n FROM {self.relation.name} GROUP BY {key}"
        else:
            shown = chance.sample(self.names, chance.randint(1, len(self.names)))
            asked, whole = _completed(self.keys(self.names if style == "hidden" else shown), shown)
            distinct = "DISTINCT " if style == "distinct" else ""
            where = f" WHERE {self.names[-1]} IS NOT NULL" if style == "where" else ""
            body = f"SELECT {distinct}{', '.join(shown)} FROM {self.relation.name}{where}"
        limit = self.limit()
        return f"{body} {asked} {limit}", f"{body} {whole} {limit}"

    def per_group(self) -> Texts:
        chance, columns, source = self.chance, ", ".join(self.names), self.relation.name
        asked, whole = _completed(self.keys(self.names), self.names)
        if chance.random() < 0.4:
            on = ", ".join(chance.sample(self.names, chance.randint(1, min(2, len(self.names)))))
            oracle = f"SELECT {columns} FROM {source} QUALIFY row_number() OVER (PARTITION BY {on} {whole}) = 1"
            return f"SELECT DISTINCT ON ({on}) {columns} FROM {source} {asked}", oracle
        key, bound = chance.choice(self.names), chance.choice(["<= 2", "= 1", "< 3", "BETWEEN 2 AND 3", "<= 0"])
        made = [
            f"SELECT {columns} FROM {source} QUALIFY row_number() OVER (PARTITION BY {key} {order}) {bound}"
            for order in (asked, whole)
        ]
        return made[0], made[1]

    def nested(self) -> Texts:
        """The first rows of a relation, joined or aggregated."""
        chance, columns, source = self.chance, ", ".join(self.names), self.relation.name
        asked, whole = _completed(self.keys(self.names), self.names)
        limit = self.limit()
        inner = [f"(SELECT {columns} FROM {source} {order} {limit}) AS d" for order in (asked, whole)]
        outer = chance.choice(
            [
                "SELECT d.a, COUNT(*) AS n FROM {} GROUP BY d.a",
                f"SELECT d.{self.names[-1]}, V.a FROM {{}}, V WHERE d.a = V.a",
                "SELECT V.a FROM V WHERE V.a IN (SELECT d.a FROM {})",
                "SELECT R.a FROM R WHERE NOT EXISTS (SELECT 1 FROM {} WHERE d.a = R.a)",
                "SELECT d.a FROM {} UNION ALL SELECT R.a FROM R",
            ]
        )
        return outer.format(inner[0]), outer.format(inner[1])

    def united(self) -> Texts:
        word = self.chance.choice(["UNION", "UNION ALL"])
        body = f"SELECT a, a + 1 AS b FROM R {word} SELECT a, 7 FROM V"
        asked, whole = _completed(self.keys(["a", "b"]), ["a", "b"])
        limit = self.limit()
        return f"{body} {asked} {limit}", f"{body} {whole} {limit}"

    def _function(self) -> Texts:
        chance = self.chance
        partition = f"PARTITION BY {chance.choice(self.names)} " if chance.random() < 0.7 else ""
        asked, whole = _completed(self.keys(self.names), self.names)
        value, number = chance.choice(self.names), chance.choice(self.numbers)
        call = chance.choice(
            [
                "row_number()",
                "ntile(2)",
                f"lag({value})",
                f"lead({value}, 2)",
                f"first_value({value})",
                f"nth_value({value}, 2)",
            ]
        )
        style = chance.choice(["place", "place", "peers", "whole", "rows"])
        if style == "place" and call.startswith("nth"):
            second = f"nth_value({value}, 2 {whole})"
            return f"{call} OVER ({partition}{asked})", f"{second} OVER ({partition}{asked})"
        if style == "place":
            return f"{call} OVER ({partition}{asked})", f"{call} OVER ({partition}{whole})"
        aggregate = chance.choice([f"SUM({number})", "COUNT(*)", f"MIN({value})", f"MAX({value})", f"COUNT({value})"])
        if style == "rows":
            frame = chance.choice(
                [
                    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                    "ROWS UNBOUNDED PRECEDING",
                    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
                ]
            )
            return f"{aggregate} OVER ({partition}{asked} {frame})", f"{aggregate} OVER ({partition}{whole} {frame})"
        if style == "peers":
            ranked = chance.choice(["rank()", "dense_rank()", "percent_rank()", "cume_dist()", aggregate])
            return (f"{ranked} OVER ({partition}{asked})",) * 2
        return (f"{aggregate} OVER ({partition.strip()})",) * 2

    def functions(self) -> Texts:
        chance, columns, source = self.chance, ", ".join(self.names), self.relation.name
        several = [self._function() for _ in range(chance.choice([1, 2, 3]) if source == "V" else 1)]
        made = [", ".join(f"{f[i]} AS f{n}" for n, f in enumerate(several)) for i in (0, 1)]
        qualify = chance.choice(
            ["", "", " QUALIFY f0 IS NOT NULL", f" QUALIFY count(*) OVER (PARTITION BY {self.names[-1]}) > 1"]
        )
        return (
            f"SELECT {columns}, {made[0]} FROM {source}{qualify}",
            f"SELECT {columns}, {made[1]} FROM {source}{qualify}",
        )

    def of_groups(self) -> Texts:
        key = self.chance.choice(self.names)
        word = self.chance.choice(["rank()", "dense_rank()", "sum(count(*))"])
        call = f"{word} OVER (ORDER BY COUNT(*) DESC) AS r"
        text = f"SELECT {key}, COUNT(*) AS n, {call} FROM {self.relation.name} GROUP BY {key}"
        return text, text

    def ordered(self) -> Texts:
        """A whole result in an order, of which some have no tree."""
        chance = self.chance
        if chance.random() < 0.5:
            text = f"SELECT {', '.join(self.names)} FROM {self.relation.name}"
            return f"{text} ORDER BY {', '.join(self.keys(self.names))}", text
        columns = [
            "R.a AS x",
            f"R.{self.relations[0].columns[-1].name} AS y",
            f"V.{self.relations[1].columns[-1].name} AS z",
        ]
        text = f"SELECT {', '.join(columns)} FROM R, V WHERE R.a = V.a"
        keys = [
            f"{k}{chance.choice(['', ' DESC'])}{chance.choice(NULLS)}"
            for k in chance.choice(["yzx", "zyx", "yxz", "zy", "yz"])
        ]
        return f"{text} ORDER BY {', '.join(keys)}", text

    def texts(self) -> Texts:
        kinds = [self.first, self.first, self.per_group, self.nested, self.united, self.functions, self.functions]
        return self.chance.choice([*kinds, self.of_groups, self.ordered])()


def _drawn(chance: Random, spec: Spec, name: str) -> Drawn:
    text, oracle = _Query(chance, spec.relations).texts()
    query = compile_query(spec, QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),)))
    program = program_of(query, spec)
    first = next(step.plan for step in program.steps if isinstance(step, Tree))
    shown = {c.name for c in query.columns}
    order = program.order if all(o.variable in shown for o in program.order) else ()
    return Drawn(name, "sql", text, None, oracle, replace(first, query=program.form, order=order), program)


def places_case(seed: int, queries: int = 6, batches: int = 5) -> Case:
    chance = Random(f"places {seed}")
    spec = Spec("spec.yaml", _relations(chance), ())
    drawn = tuple(_drawn(chance, spec, f"q{i}") for i in range(queries))
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))
