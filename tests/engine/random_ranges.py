"""Random joins with comparisons between their atoms: along a tree, in rings, and between atoms that are far apart.

`range_case` has few values and rows, so that all that is special about a type is frequent. `wide_case` has hundreds of
both in a group, so that trees have several levels of blocks, and ranges begin and end anywhere in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Literal

from dynq_cli.errors import SpecError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Tree
from dynq_cli.query.always_empty import never_holding
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, OrderKey, QuerySpec, Relation, Semantics, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import Batch, Change, Row, random_history
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
    def __init__(self, chance: Random, relations: tuple[Relation, ...], kind: str, sizes: tuple[int, ...]) -> None:
        self.chance, self.kind = chance, kind
        self.atoms = [chance.choice(relations) for _ in range(chance.choice(sizes))]
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


def _drawn(
    chance: Random, spec: Spec, kind: str, name: str, form: Form, sizes: tuple[int, ...] = (2, 2, 2, 3, 3, 4)
) -> Drawn:
    while True:
        join = _Join(chance, spec.relations, kind, sizes)
        text = join.aggregates() if form == "groups" else join.text()
        semantics: Semantics | None = None if form == "groups" else chance.choice([None, None, "set"])
        order = join.order() if form == "order" else ()
        written = QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),), semantics, order_by=order)
        try:
            query = compile_query(spec, written)
            plan = plan_query(query, spec)
        except SpecError:
            continue
        if any(never_holding(query)):
            continue
        if isinstance(plan, Plan) and not plan.unordered:
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


def wide_case(seed: int, queries: int = 2, batches: int = 5, form: Form = "rows") -> Case:
    """As `range_case`, with many rows in few groups."""
    chance = Random(seed)
    kind = chance.choice(ORDERED)
    spec = Spec("spec.yaml", _relations(chance, kind), ())
    drawn = tuple(_drawn(chance, spec, kind, f"q{i}", form, (2, 2, 3)) for i in range(queries))
    stored: dict[str, list[Row]] = {r.name: [] for r in spec.relations}
    history = [_many_changes(chance, spec, stored, is_first=n == 0) for n in range(batches)]
    return Case(seed, spec, drawn, tuple(history))


def _many_changes(chance: Random, spec: Spec, stored: dict[str, list[Row]], *, is_first: bool) -> Batch:
    least = len(spec.relations) if is_first else 1
    relations = chance.sample(spec.relations, chance.randint(least, len(spec.relations)))
    changes = []
    for relation in relations:
        rows = stored[relation.name]
        shrinks = chance.random() < 0.3 and not is_first
        for _ in range(70 if is_first else chance.choice([1, 8, 40, 70])):
            if rows and chance.random() < (0.8 if shrinks else 0.25):
                changes.append(Change(relation.name, "delete", rows.pop(chance.randrange(len(rows)))))
            else:
                rows.append(tuple(_wide_value(chance, c) for c in relation.columns))
                changes.append(Change(relation.name, "insert", rows[-1]))
    return Batch(tuple(changes), tuple(r.name for r in relations))


def _wide_value(chance: Random, column: Column) -> Any:
    """Of what is compared one of hundreds of values, of what is joined one of three."""
    if column.nullable and chance.random() < 0.05:
        return None
    if column.name.startswith("k"):
        return chance.choice([1, 1, 1, 2, 3])
    n = chance.randrange(-150, 150)
    match column.type.name:
        case "decimal":
            return Decimal(n) * (10**18 if column.type.precision and column.type.precision > 18 else 1) / 4
        case "float64":
            return n / 8
        case "string":
            return f"{n % 7}{'x' * (n % 3)}{n}"
        case "date":
            return date(2020, 1, 1) + timedelta(days=n)
        case "timestamp":
            return datetime(2020, 1, 1) + timedelta(minutes=41 * n)
        case _:
            return n
