"""Random specs and queries: joins, comparisons and subqueries over every type, in SQL and as rules.

A drawn query is one that the engine keeps. It has its text and what DuckDB is asked for the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from random import Random
from typing import Any

from dynq_cli.errors import SpecError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Program, Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, OrderKey, QuerySpec, Relation, Semantics, Spec, Text
from dynq_cli.spec.types import Type, parse_type
from tests.engine.random_history import DOMAINS, Batch, kind_of, random_history

# Types of one family meet in joins.
FAMILIES = {
    "exact": ["int8", "int16", "int32", "int64", "int64", "decimal(9,2)", "decimal(18,1)", "decimal(25,3)"],
    "int": ["int8", "int32", "int64", "int64"],
    "float": ["float32", "float64"],
    "string": ["string"],
    "binary": ["binary"],
    "bool": ["bool"],
    "date": ["date"],
    "time": ["time"],
    "timestamp": ["timestamp"],
}
FILTERS = {
    "int": ["{c} > 0", "{c} % 2 = 0", "{c} IN (0, 1, 3)", "{c} BETWEEN 0 AND 2", "({c} = 1 OR {c} IS NULL)"],
    "decimal": ["{c} >= 1", "{c} < 1.5", "CASE WHEN {c} > 1 THEN FALSE ELSE TRUE END"],
    "float": ["{c} >= 0", "{c} < 1.5", "{c} IS NOT NULL", "isnan({c}) = FALSE"],
    "string": ["{c} LIKE 'a%'", "length({c}) < 3", "{c} <> 'b'", "upper({c}) IN ('A', 'AB')"],
    "binary": ["octet_length({c}) > 0", "{c} IS NOT NULL"],
    "bool": ["{c}", "NOT {c}", "{c} IS NOT NULL"],
    "date": ["{c} >= DATE '2020-01-01'", "year({c}) = 2020"],
    "time": ["{c} < TIME '13:00:00'"],
    "timestamp": ["{c} > TIMESTAMP '2000-01-01 00:00:00'"],
}
DERIVED = {
    "int": ["{c} + 1", "coalesce({c}, 1)", "CASE WHEN {c} > 1 THEN 1 ELSE 0 END"],
    "float": ["{c} * 2", "coalesce({c}, 0)"],
    "string": ["upper({c})", "{c} || 'b'", "coalesce({c}, 'a')"],
    "date": ["{c} - 1"],
}


@dataclass(frozen=True)
class Drawn:
    """A query that the engine keeps, by its plan or in several steps, and the SELECT that says the same to DuckDB."""

    name: str
    language: str
    text: str
    semantics: Semantics | None
    oracle: str
    plan: Plan = field(repr=False, compare=False)
    program: Program | None = field(default=None, repr=False, compare=False)
    tags: frozenset[str] = frozenset()
    order_by: tuple[OrderKey, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether its tree is one that the engine keeps as it is, without other steps."""
        query = self.plan.query
        is_equi_join = not query.comparisons and all(a.mode == "join" for a in query.atoms)
        return is_equi_join and self.plan.strategy == "view-tree"

    @property
    def order(self) -> list[tuple[int, bool, bool]]:
        """The complete order that is kept: output columns by number, whether they descend and have NULL first."""
        assert self.program is not None
        names = [c.name for c in self.program.form.columns]
        firsts = [not o.descending if o.nulls_first is None else o.nulls_first for o in self.program.order]
        return [(names.index(o.variable), o.descending, f) for o, f in zip(self.program.order, firsts, strict=True)]


@dataclass(frozen=True)
class Case:
    seed: int
    spec: Spec
    queries: tuple[Drawn, ...]
    history: tuple[Batch, ...]


def plan_of(program: Program) -> Plan:
    """The plan of the tree that is a program's last step."""
    assert isinstance(program.result, Tree)
    return program.result.plan


def _family(column: Column) -> str:
    kind = kind_of(column)
    return "exact" if kind in ("int", "decimal") else kind


def random_relations(chance: Random) -> tuple[Relation, ...]:
    palette = chance.sample(sorted(FAMILIES), chance.randint(1, 3))
    narrow = chance.random()
    if narrow < 0.4:
        palette = ["int"] if narrow < 0.2 else ["exact"]
    made = []
    for r in range(chance.randint(2, 5)):
        columns = []
        for c in range(chance.randint(1, 4)):
            kind: Type = parse_type(chance.choice(FAMILIES[chance.choice(palette)]))[0]
            columns.append(Column(f"c{c}", kind, chance.random() < 0.3))
        key: tuple[str, ...] = ()
        if chance.random() < 0.35:
            width = chance.randint(1, min(2, len(columns)))
            key = tuple(c.name for c in chance.sample(columns, width))
            columns = [Column(c.name, c.type, c.nullable and c.name not in key) for c in columns]
        made.append(Relation(f"R{r}", tuple(columns), key))
    return tuple(made)


Slot = tuple[int, str]  # an atom and one of its columns


class Shape:
    """A join tree under construction: each atom meets one earlier atom, so the query is acyclic."""

    def __init__(self, chance: Random, relations: tuple[Relation, ...]) -> None:
        many = chance.choice([1, 2, 2, 3, 3, 4, 5, 6])
        self.chance = chance
        self.atoms = [chance.choice(relations) for _ in range(many)]
        self.equal: list[tuple[Slot, Slot]] = []
        self.constants: list[tuple[Slot, str]] = []
        self.products = 0
        for i in range(1, many):
            self._attach(i)
        if many > 2 and chance.random() < 0.4:
            self._pair((many - 1, 0))
        for i, relation in enumerate(self.atoms):
            if chance.random() < 0.1 and len(relation.columns) > 1:
                self._pair((i, i))
            if chance.random() < 0.15:
                self._constant(i)

    def _attach(self, i: int) -> None:
        # Products multiply; two of them are enough.
        for _ in range(4 if self.products else 2):
            if self._pair((i, self.chance.randrange(i))):
                if self.chance.random() < 0.25:
                    self._pair((i, self.equal[-1][1][0]))
                return
        self.products += 1

    def _pair(self, atoms: tuple[int, int]) -> bool:
        left, right = (self.chance.choice(self.atoms[i].columns) for i in atoms)
        if _family(left) != _family(right) or (atoms[0] == atoms[1] and left == right):
            return False
        self.equal.append(((atoms[0], left.name), (atoms[1], right.name)))
        return True

    def _constant(self, i: int) -> None:
        column = self.chance.choice(self.atoms[i].columns)
        value = DOMAINS[kind_of(column)][self.chance.randrange(2)]
        literal = _literal(value)
        if literal and column.type.scale >= 0:
            self.constants.append(((i, column.name), literal))

    def column(self, slot: Slot) -> Column:
        found = self.atoms[slot[0]].column(slot[1])
        assert found is not None
        return found

    def classes(self) -> dict[Slot, Slot]:
        """The first slot that each slot equals."""
        parent = {(i, c.name): (i, c.name) for i, r in enumerate(self.atoms) for c in r.columns}
        for left, right in self.equal:
            a, b = sorted([parent[left], parent[right]])
            parent = {slot: a if top == b else top for slot, top in parent.items()}
        return parent

    def tags(self) -> set[str]:
        tags = {f"{len(self.atoms)} atoms"}
        tags |= {"self-join"} if len(set(self.atoms)) < len(self.atoms) else set()
        tags |= {"product"} if self.products else set()
        tags |= {"constant"} if self.constants else set()
        tags |= {"repeated variable"} if any(a[0] == b[0] for a, b in self.equal) else set()
        tags |= {"widened"} if any(self.column(a).type != self.column(b).type for a, b in self.equal) else set()
        tags |= {"NULL in join"} if any(self.column(s).nullable for pair in self.equal for s in pair) else set()
        tags |= {"keyed"} if any(r.key for r in self.atoms) else set()
        return tags | {f"type {kind_of(c)}" for r in self.atoms for c in r.columns}


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, date | time):
        return f"{'DATE' if isinstance(value, date) else 'TIME'} '{value}'"
    return "" if isinstance(value, bytes) else str(value)


def _head(chance: Random, shape: Shape) -> list[Slot]:
    """Columns of some atoms: whole atoms often, since the join columns between them make it free-connex."""
    everything = [(i, c.name) for i, r in enumerate(shape.atoms) for c in r.columns]
    style = chance.random()
    if style < 0.3:
        return everything
    if style < 0.7:
        first = chance.randrange(len(shape.atoms))
        kept = {first}
        for (i, _), (j, _) in shape.equal * 2:
            if {i, j} & kept and chance.random() < 0.5:
                kept |= {i, j}
        return [s for s in everything if s[0] in kept and chance.random() < 0.85]
    return chance.sample(everything, min(len(everything), chance.randint(1, 3)))


def plain_sql(shape: Shape, columns: list[str], conditions: list[str], distinct: bool) -> str:
    tables = ", ".join(f"{r.name} AS a{i}" for i, r in enumerate(shape.atoms))
    where = [f"a{i}.{c} = a{j}.{d}" for (i, c), (j, d) in shape.equal]
    where += [f"a{i}.{c} = {literal}" for (i, c), literal in shape.constants]
    said = " AND ".join([*where, *conditions])
    select = f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(columns)} FROM {tables}"
    return f"{select} WHERE {said}" if said else select


def _draw_sql(chance: Random, shape: Shape) -> tuple[str, str, Semantics | None, set[str]]:
    tags = set()
    columns = []
    for n, (i, c) in enumerate(_head(chance, shape) or [(0, shape.atoms[0].columns[0].name)]):
        options = DERIVED.get(kind_of(shape.column((i, c))), [])
        text = f"a{i}.{c}"
        if options and chance.random() < 0.12:
            text = chance.choice(options).format(c=text)
            tags.add("derived column")
        columns.append(f"{text} AS o{n}")
    conditions = []
    for i, relation in enumerate(shape.atoms):
        if chance.random() < 0.2:
            column = chance.choice(relation.columns)
            conditions.append(chance.choice(FILTERS[kind_of(column)]).format(c=f"a{i}.{column.name}"))
            tags.add("filter")
    if shape.equal and chance.random() < 0.25:
        (i, c), (j, d) = shape.equal[-1]
        if kind_of(shape.column((i, c))) == kind_of(shape.column((j, d))) == "int" and i != j:
            shape.equal.pop()
            conditions.append(f"a{i}.{c} + 1 = a{j}.{d}")
            tags.add("derived join")
    for condition, tag in (*_compared(chance, shape), *tested(chance, shape)):
        conditions.append(condition)
        tags.add(tag)
    distinct = chance.random() < 0.4
    semantics: Semantics | None = chance.choice([None, None, None, "set"])
    text = plain_sql(shape, columns, conditions, distinct)
    oracle = plain_sql(shape, columns, conditions, distinct or semantics == "set")
    return text, oracle, semantics, tags


def _compared(chance: Random, shape: Shape) -> Iterator[tuple[str, str]]:
    """Comparisons between different atoms, some of them with an offset."""
    while len(shape.atoms) > 1 and chance.random() < 0.4:
        i, j = chance.sample(range(len(shape.atoms)), 2)
        left, right = chance.choice(shape.atoms[i].columns), chance.choice(shape.atoms[j].columns)
        if _family(left) == _family(right) != "bool":
            offset = " + 1" if _family(left) == "exact" and chance.random() < 0.3 else ""
            yield f"a{i}.{left.name} {chance.choice(['<', '<=', '<>', '>'])} a{j}.{right.name}{offset}", "comparison"


def tested(chance: Random, shape: Shape) -> Iterator[tuple[str, str]]:
    """EXISTS and IN with one relation, linked by a column, and their negations."""
    while chance.random() < 0.25:
        i, inner = chance.randrange(len(shape.atoms)), chance.choice(shape.atoms)
        outer, column = chance.choice(shape.atoms[i].columns), chance.choice(inner.columns)
        if _family(outer) != _family(column):
            continue
        negated = chance.choice(["", "NOT "])
        if chance.random() < 0.5:
            yield f"a{i}.{outer.name} {negated}IN (SELECT e.{column.name} FROM {inner.name} AS e)", "subquery"
        else:
            op = chance.choice(["=", "=", "<"]) if _family(outer) != "bool" else "="
            test = f"SELECT 1 FROM {inner.name} AS e WHERE e.{column.name} {op} a{i}.{outer.name}"
            yield f"{negated}EXISTS ({test})", "subquery"


def _draw_rule(chance: Random, shape: Shape) -> tuple[str, str, Semantics | None, set[str]]:
    classes = shape.classes()
    fixed = dict(shape.constants)
    sizes = Counter(classes.values())
    head: list[Slot] = []
    if chance.random() < 0.85:
        head = [s for s in dict.fromkeys(classes[s] for s in _head(chance, shape)) if s not in fixed]
    semantics: Semantics | None = chance.choice([None, None, "bag"]) if head else None
    names = {s: f"v{s[0]}_{s[1]}" for s in classes.values()}
    atoms = []
    for i, relation in enumerate(shape.atoms):
        terms = []
        for c in relation.columns:
            slot = (i, c.name)
            used = sizes[classes[slot]] > 1 or classes[slot] in head
            plain_constant = slot in fixed and sizes[classes[slot]] == 1 and slot not in head
            terms.append(fixed[slot] if plain_constant else names[classes[slot]] if used else "_")
        atoms.append(f"{relation.name}({', '.join(terms)})")
    atoms += [f"{names[classes[s]]} = {v}" for s, v in fixed.items() if sizes[classes[s]] > 1 or s in head]
    text = f"q({', '.join(names[s] for s in head)}) :- {', '.join(atoms)}"
    columns = [f"a{i}.{c} AS {names[i, c]}" for i, c in head] or ["1 AS one"]
    oracle = plain_sql(shape, columns, [], semantics != "bag")
    return text, oracle, semantics, {"rule"} | ({"empty head"} if not head else set())


def draw_query(chance: Random, spec: Spec, name: str, refused: Counter[str]) -> Drawn:
    """A query that the engine keeps; `refused` counts why others were not taken."""
    while True:
        shape = Shape(chance, spec.relations)
        language: str = "rule" if chance.random() < 0.35 else "sql"
        draw = _draw_rule if language == "rule" else _draw_sql
        text, oracle, semantics, tags = draw(chance, shape)
        written = QuerySpec(name, language, (Text(text, "spec.yaml", ((0, 1, 1),)),), semantics)
        try:
            plan = plan_query(compile_query(spec, written), spec)
        except SpecError as error:
            refused[error.problems[0].message[:60]] += 1
            continue
        if not isinstance(plan, Plan) or plan.unordered:
            refused[plan.strategy if not isinstance(plan, Plan) else plan.unordered] += 1
            continue
        tags |= shape.tags() | {plan.classification.name, plan.query.semantics}
        tags |= {"simple tree" if plan.tree.is_simple else "other tree"}
        return Drawn(name, language, text, semantics, oracle, plan, None, frozenset(tags))


def in_order(chance: Random, spec: Spec, drawn: Drawn, tries: int = 6) -> Drawn:
    """The query with an order, if one of some that are tried can be kept."""
    columns = [c.name for c in drawn.plan.query.columns if c.kind == "variable"]
    for _ in range(tries if columns else 0):
        by = chance.sample(columns, chance.randint(1, len(columns)))
        keys = tuple(OrderKey(name, chance.random() < 0.4) for name in by)
        text = Text(drawn.text, "spec.yaml", ((0, 1, 1),))
        plan = plan_query(
            compile_query(spec, QuerySpec(drawn.name, drawn.language, (text,), drawn.semantics, keys)), spec
        )
        if not plan.unordered:
            assert isinstance(plan, Plan) and plan.order
            tags = drawn.tags | {"ordered", "descending" if any(k.descending for k in keys) else "ascending"}
            tags |= {"simple ordered tree" if plan.tree.is_simple else "other ordered tree"}
            return replace(drawn, plan=plan, program=program_of(plan.query, spec), tags=frozenset(tags), order_by=keys)
    return drawn


def random_case(seed: int, queries: int = 8, batches: int = 7, *, ordered: bool = False) -> Case:
    chance = Random(seed)
    spec = Spec("spec.yaml", random_relations(chance), ())
    refused: Counter[str] = Counter()
    drawn = tuple(draw_query(chance, spec, f"q{i}", refused) for i in range(queries))
    if ordered:
        drawn = tuple(in_order(chance, spec, query) for query in drawn)
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))
