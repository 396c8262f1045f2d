"""Random joins with comparisons between their atoms: along a tree, in rings, and between atoms that are far apart."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

from dynq_cli.errors import SpecError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, OrderKey, QuerySpec, Relation, Semantics, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_queries import Case, Drawn, plan_of

Form = Literal["rows", "groups", "order"]
# What is compared; the first is drawn most.
ORDERED = (
    "int64",
    "int64",
    "int64",
    "int32",
    "decimal(9,2)",
    "float64",
    "string",
    "date",
    "timestamp",
    "decimal(25,3)",
)
OFFSETS = {
    "int64": ["+ 1", "- 2", "+ 100"],
    "int32": ["+ 1"],
    "decimal(9,2)": ["+ 0.5", "- 1.25", "+ 0.001"],
    "float64": ["+ 0.25"],
    "date": ["+ INTERVAL '1 day'", "- INTERVAL '30 years'"],
    "timestamp": ["+ INTERVAL '12 hours'", "- INTERVAL '1 day'"],
}


def _relations(chance: Random, kind: str) -> tuple[Relation, ...]:
    """Relations of one or two columns that are compared, and up to two that are joined."""
    made = []
    for r in range(chance.randint(2, 3)):
        kinds = [kind] * chance.choice([1, 1, 2]) + ["int64"] * chance.choice([0, 1, 1, 2])
        names = [f"z{i}" if i < kinds.count(kind) and k == kind else f"k{i}" for i, k in enumerate(kinds)]
        columns = [Column(n, parse_type(k)[0], chance.random() < 0.25) for n, k in zip(names, kinds, strict=True)]
        key: tuple[str, ...] = ()
        if chance.random() < 0.25:
            key = (chance.choice(names),)
            columns = [Column(c.name, c.type, c.nullable and c.name not in key) for c in columns]
        made.append(Relation(f"R{r}", tuple(columns), key))
    return tuple(made)


class _Join:
    def __init__(self, chance: Random, relations: tuple[Relation, ...], kind: str) -> None:
        self.chance, self.kind = chance, kind
        self.atoms = [chance.choice(relations) for _ in range(chance.choice([2, 2, 2, 3, 3, 4]))]
        self.where = [*self._equalities(), *self._comparisons()]

    def _of(self, atom: int, prefix: str) -> list[str]:
        return [c.name for c in self.atoms[atom].columns if c.name.startswith(prefix)]

    def _equalities(self) -> Iterator[str]:
        for i in range(1, len(self.atoms)):
            j = self.chance.randrange(i)
            mine, theirs = self._of(i, "k"), self._of(j, "k")
            if mine and theirs and self.chance.random() < 0.7:
                yield f"a{i}.{self.chance.choice(mine)} = a{j}.{self.chance.choice(theirs)}"

    def _comparisons(self) -> Iterator[str]:
        many = self.chance.choice([1, 1, 2, 2, 3, 4])
        ring = self.chance.random() < 0.3
        for n in range(many):
            i, j = self.chance.sample(range(len(self.atoms)), 2)
            if ring:
                i, j = n % len(self.atoms), (n + 1) % len(self.atoms)
            left, right = self.chance.choice(self._of(i, "z")), self.chance.choice(self._of(j, "z"))
            yield self._compared(f"a{i}.{left}", f"a{j}.{right}")
            if self.chance.random() < 0.35:
                # The other end of a window.
                yield self._compared(f"a{j}.{right}", f"a{i}.{left}", offset=True)

    def _compared(self, left: str, right: str, *, offset: bool = False) -> str:
        op = self.chance.choice(["<", "<", "<=", ">", ">=", "<>"] if self.chance.random() < 0.2 else ["<", "<="])
        shifts = OFFSETS.get(self.kind, [])
        shift = f" {self.chance.choice(shifts)}" if shifts and (offset or self.chance.random() < 0.25) else ""
        return f"{left} {op} {right}{shift}"

    def text(self) -> str:
        columns = [f"a{i}.{c.name}" for i, a in enumerate(self.atoms) for c in a.columns]
        style = self.chance.random()
        if style > 0.55:
            kept = [c for c in columns if self.chance.random() < 0.6]
            columns = kept or columns[:1]
        if style > 0.9:
            columns = self.chance.sample(columns, 1)
        shown = ", ".join(f"{c} AS o{n}" for n, c in enumerate(columns))
        tables = ", ".join(f"{a.name} AS a{i}" for i, a in enumerate(self.atoms))
        self.columns = [f"o{n}" for n in range(len(columns))]
        distinct = "DISTINCT " if self.chance.random() < 0.3 else ""
        return f"SELECT {distinct}{shown} FROM {tables} WHERE {' AND '.join(self.where)}"

    def aggregates(self) -> str:
        """Groups by columns of any atoms, and sums over the whole join."""
        keys = [f"a{i}.{c}" for i in range(len(self.atoms)) for c in self._of(i, "k")]
        picked = self.chance.sample(keys, min(len(keys), self.chance.choice([0, 1, 1, 2])))
        numbers = [f"SUM({k})" for k in keys] + [f"COUNT({k})" for k in keys]
        compared = [f"a{i}.{c}" for i in range(len(self.atoms)) for c in self._of(i, "z")]
        extremes = [f"{self.chance.choice(['MIN', 'MAX'])}({c})" for c in compared]
        calls = ["COUNT(*)", *self.chance.sample(numbers + extremes, min(2, len(numbers + extremes)))]
        calls = calls[: self.chance.randint(1, 3)]
        shown = [f"{k} AS g{n}" for n, k in enumerate(picked)] + [f"{c} AS o{n}" for n, c in enumerate(calls)]
        tables = ", ".join(f"{a.name} AS a{i}" for i, a in enumerate(self.atoms))
        grouped = f" GROUP BY {', '.join(picked)}" if picked else ""
        return f"SELECT {', '.join(shown)} FROM {tables} WHERE {' AND '.join(self.where)}{grouped}"

    def order(self) -> tuple[OrderKey, ...]:
        some = self.chance.sample(self.columns, self.chance.randint(1, len(self.columns)))
        return tuple(OrderKey(c, self.chance.random() < 0.15) for c in some)


def _drawn(chance: Random, spec: Spec, kind: str, name: str, form: Form) -> Drawn:
    while True:
        join = _Join(chance, spec.relations, kind)
        text = join.aggregates() if form == "groups" else join.text()
        semantics: Semantics | None = None if form == "groups" else chance.choice([None, None, "set"])
        order = join.order() if form == "order" else ()
        written = QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),), semantics, order_by=order)
        try:
            plan = plan_query(compile_query(spec, written), spec)
        except SpecError:
            continue
        if isinstance(plan, Plan) and not plan.refusal:
            oracle = f"SELECT DISTINCT * FROM ({text})" if semantics == "set" else text
            program = program_of(plan.query, spec)
            tags = {"in ranges"} if isinstance(program.result, Tree) and program.form.comparisons else set()
            tags |= {"with a ring"} if tags and len(program.steps) > 1 else set()
            fed = [s.plan for s in program.steps[:-1] if isinstance(s, Tree)]
            tags |= {"feeds from ranges"} if any(p.query.comparisons for p in fed) else set()
            kept = plan if form == "rows" else plan_of(program)
            return Drawn(name, "sql", text, semantics, oracle, kept, program, frozenset(tags), order)


def range_case(seed: int, queries: int = 4, batches: int = 7, form: Form = "rows") -> Case:
    """Several queries over relations with columns of one type that are compared."""
    chance = Random(seed)
    kind = chance.choice(ORDERED)
    spec = Spec("spec.yaml", _relations(chance, kind), ())
    drawn = tuple(_drawn(chance, spec, kind, f"q{i}", form) for i in range(queries))
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))
