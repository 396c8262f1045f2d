"""Random queries whose result is read from several trees at once, unions and joins with !=, and sums with !=.

Members of a union overlap, since they draw from few relations and few values; they have NULLs, constants, the same
column twice, filters, self-joins and ranges. What is drawn is only what needs no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from dynq_cli.errors import SpecError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Derived, Together, Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, OrderKey, QuerySpec, Relation, Semantics, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import kind_of, random_history
from tests.engine.random_queries import FILTERS, Case, Drawn, plan_of

KINDS = ("int64", "int64", "int32", "string", "decimal(9,2)", "decimal(25,3)", "float64", "date", "binary")
CONSTANTS = {"int": ["1", "0"], "string": ["'a'"], "decimal": ["1.5"], "float": ["1.0"], "date": ["DATE '2020-03-01'"]}
# What a comparison may add, by the family of its sides.
OFFSETS = {"int": " + 1", "decimal": " + 0.5", "date": " + INTERVAL '1 day'"}


def together_relations(chance: Random) -> tuple[Relation, ...]:
    """Few columns of few types: k are joined, v are what members share and comparisons compare."""
    kind = chance.choice(KINDS)
    others = (
        [kind, kind, "int32", "int8"] if kind == "int64" else [kind, kind, "decimal(9,2)" if "dec" in kind else kind]
    )
    made = []
    for r in range(chance.randint(2, 3)):
        columns = []
        for i in range(chance.choice([1, 1, 2])):
            columns.append(Column(f"k{i}", parse_type("int64")[0], chance.random() < 0.2))
        for i in range(chance.choice([1, 1, 2])):
            columns.append(Column(f"v{i}", parse_type(chance.choice(others))[0], chance.random() < 0.35))
        key = (columns[0].name,) if chance.random() < 0.2 and not columns[0].nullable else ()
        made.append(Relation(f"R{r}", tuple(columns), key))
    return tuple(made)


class _Select:
    """A SELECT over one to three atoms, each joined to one before it by a k."""

    def __init__(self, chance: Random, relations: tuple[Relation, ...], atoms: int) -> None:
        self.chance = chance
        self.atoms = [chance.choice(relations) for _ in range(atoms)]
        self.where: list[str] = []
        for i in range(1, atoms):
            if chance.random() < 0.9:
                self.where.append(f"a{i}.{self._pick(i, 'k')} = a{chance.randrange(i)}.k0")
        for i, relation in enumerate(self.atoms):
            if chance.random() < 0.25:
                column = chance.choice(relation.columns)
                self.where.append(chance.choice(FILTERS[kind_of(column)]).format(c=f"a{i}.{column.name}"))

    def _pick(self, atom: int, letter: str) -> str:
        return self.chance.choice([c.name for c in self.atoms[atom].columns if c.name.startswith(letter)])

    def compare(self, op: str, *, offset: bool = False) -> None:
        """Two values of different atoms."""
        i, j = self.chance.sample(range(len(self.atoms)), 2)
        left, right = self._pick(i, "v"), self._pick(j, "v")
        column = self.atoms[j].column(right)
        shift = OFFSETS.get(kind_of(column), "") if column is not None and offset else ""
        self.where.append(f"a{i}.{left} {op} a{j}.{right}{shift}")

    def columns(self) -> list[str]:
        return [f"a{i}.{c.name}" for i, a in enumerate(self.atoms) for c in a.columns]

    def of(self, letter: str) -> list[str]:
        return [c for c in self.columns() if c.split(".")[1].startswith(letter)]

    def text(self, shown: list[str], *, distinct: bool = False) -> str:
        named = ", ".join(f"{c} AS o{n}" for n, c in enumerate(shown))
        tables = ", ".join(f"{a.name} AS a{i}" for i, a in enumerate(self.atoms))
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"SELECT {'DISTINCT ' if distinct else ''}{named} FROM {tables}{where}"


def union_text(chance: Random, spec: Spec) -> tuple[str, Semantics | None, set[str]]:
    """Members that show columns of k and v in the same places."""
    shape = [chance.choice("kkv") for _ in range(chance.randint(1, 4))]
    many, word = chance.choice([2, 2, 2, 3, 3, 4]), chance.choice(["UNION", "UNION", "UNION ALL"])
    members, tags = [], {f"{many} members", word}
    for _ in range(many):
        select = _Select(chance, spec.relations, chance.choice([1, 1, 2, 2, 3]))
        if len(select.atoms) > 1 and chance.random() < 0.3:
            select.compare(chance.choice(["<", "<="]))
            tags.add("range")
        if len({a.name for a in select.atoms}) < len(select.atoms):
            tags.add("self-join")
        if chance.random() < 0.1:
            select.where.append("a0.k0 > 1000")
            tags.add("empty member")
        shown = []
        for letter in shape:
            shown.append(chance.choice(select.of(letter)))
            if letter == "k" and chance.random() < 0.12:
                shown[-1] = chance.choice(CONSTANTS["int"])
                tags.add("constant")
        tags |= {"twice"} if len(set(shown)) < len(shown) else set()
        members.append(select.text(shown, distinct=chance.random() < 0.2))
    return f" {word} ".join(members), None, tags


def _unequal(chance: Random, spec: Spec) -> tuple[str, Semantics | None, set[str]]:
    """A join with one or two !=, and perhaps a range besides, that shows what is compared."""
    select = _Select(chance, spec.relations, chance.choice([2, 2, 2, 3, 3]))
    many, tags = chance.choice([1, 1, 1, 2, 2]), set()
    for _ in range(many):
        offset = chance.random() < 0.15
        select.compare("<>", offset=offset)
        tags |= {"offset"} if offset else set()
    if chance.random() < 0.3:
        select.compare(chance.choice(["<", "<="]), offset=chance.random() < 0.4)
        tags.add("range")
    shown = [*select.of("v"), *(k for k in select.of("k") if chance.random() < 0.8)]
    chance.shuffle(shown)
    tags.add(f"{many} !=")
    return select.text(shown, distinct=chance.random() < 0.4), chance.choice([None, None, "set"]), tags


def _sums(chance: Random, spec: Spec) -> tuple[str, Semantics | None, set[str]]:
    """A join with !=, projected or aggregated so that a side of the comparison is not at hand."""
    select = _Select(chance, spec.relations, chance.choice([2, 2, 3]))
    many, tags = chance.choice([1, 1, 1, 2]), set()
    for _ in range(many):
        select.compare("<>", offset=chance.random() < 0.15)
    if chance.random() < 0.3:
        select.compare(chance.choice(["<", "<="]), offset=chance.random() < 0.4)
        tags.add("range")
    tags.add(f"{many} !=")
    shown = chance.sample(select.columns(), min(len(select.columns()), chance.choice([1, 1, 2])))
    if chance.random() < 0.35:
        return select.text(shown), None, tags | {"projection"}
    keys = shown if chance.random() < 0.8 else []
    numbers = [f"SUM({c})" for c in select.of("k")]
    extremes = [f"{chance.choice(['MIN', 'MAX'])}({c})" for c in select.of("v")]
    distinct = [f"COUNT(DISTINCT {c})" for c in select.columns()]
    calls = ["COUNT(*)", *chance.sample(numbers + extremes + distinct, chance.choice([0, 1, 2, 2]))]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return select.text([*keys, *calls]) + grouped, None, tags | {call.split("(")[0] for call in calls}


_DRAW = {"union": union_text, "ordered": union_text, "unequal": _unequal, "sums": _sums}


def _drawn(chance: Random, spec: Spec, name: str, form: str) -> Drawn:
    while True:
        text, semantics, tags = _DRAW[form](chance, spec)
        keys: tuple[OrderKey, ...] = ()
        if form == "ordered":
            columns = text[: text.index(" FROM ")].count(" AS o")
            asked = chance.sample(range(columns), chance.randint(1, columns))
            keys = tuple(OrderKey(f"o{i}", chance.random() < 0.4) for i in asked)
        written = QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),), semantics, keys)
        try:
            query = compile_query(spec, written)
        except SpecError:
            continue
        if plan_query(query, spec).unordered:
            continue
        program = program_of(query, spec)
        if form == "sums":
            if any(f.sign < 0 for step in program.steps if isinstance(step, Derived) for f in step.feeds):
                return Drawn(name, "sql", text, semantics, text, plan_of(program), program, frozenset(tags))
            continue
        if not isinstance(program.result, Together):
            continue
        oracle = f"SELECT DISTINCT * FROM ({text})" if query.semantics == "set" else text
        first = next(step.plan for step in program.steps if isinstance(step, Tree))
        tags |= {query.semantics} | set(_kinds(program.form.columns))
        tags |= {"descending" for o in program.form.order if o.descending}
        shown = replace(first, query=program.form, order=program.form.order)
        return Drawn(name, "sql", text, semantics, oracle, shown, program, frozenset(tags), keys)


def _kinds(columns: tuple[object, ...]) -> Iterator[str]:
    for c in columns:
        yield f"kind {getattr(c, 'kind', '')}"
        if getattr(c, "nullable", False):
            yield "NULL"


def together_case(seed: int, form: str, queries: int = 3, batches: int = 7) -> Case:
    """Several queries of one form, `union`, `ordered`, `unequal` or `sums`, over one history."""
    chance = Random(f"{form} {seed}")
    spec = Spec("spec.yaml", together_relations(chance), ())
    drawn = tuple(_drawn(chance, spec, f"q{i}", form) for i in range(queries))
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))
