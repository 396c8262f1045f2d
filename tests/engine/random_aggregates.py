"""Random aggregate queries: every function over every type, of one atom and across atoms, with and without GROUP BY.

With HAVING, subqueries, derived tables, unions, and orders. `random_sums` draws those whose joins are many-to-many,
over integers and decimals, as bags and as sets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random

from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Derived, Program
from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.compile import compile_query, duckdb_text
from dynq_cli.spec.model import Column, OrderKey, QuerySpec, Relation, Semantics, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import kind_of, random_history
from tests.engine.random_queries import FILTERS, Case, Drawn, Shape, plain_sql, plan_of, random_relations, tested

# Products of these fit DuckDB's types, so that it can be asked for them.
Draw = Callable[[Random, Shape], tuple[str, bool]]
_SMALL = ("int8", "int16", "int32", "decimal(9,2)", "float32", "float64")


def _slots(shape: Shape) -> list[tuple[str, Column]]:
    return [(f"a{i}.{c.name}", c) for i, r in enumerate(shape.atoms) for c in r.columns]


def _number(text: str, column: Column) -> str:
    return f"CAST({text} AS BIGINT)" if column.type.is_integer else text


def _aggregate(chance: Random, shape: Shape) -> tuple[str, bool]:
    """An aggregate call, and whether it may stand in HAVING: whether DuckDB computes it without rounding."""
    slots = _slots(shape)
    text, column = chance.choice(slots)
    numbers = [s for s in slots if s[1].type.is_numeric]
    style = chance.random()
    if style < 0.2:
        return chance.choice(["COUNT(*)", f"COUNT({text})", f"COUNT(DISTINCT {text})"]), True
    if style < 0.45 or not numbers:
        return f"{chance.choice(['MIN', 'MAX'])}({text})", False
    text, column = chance.choice(numbers)
    function, exact = chance.choice(["SUM", "SUM", "AVG"]), not column.type.is_float
    argument = _number(text, column)
    small = [s for s in numbers if str(s[1].type) in _SMALL]
    if len(small) > 1 and style < 0.75:
        (left, first), (right, second) = chance.sample(small, 2)
        exact = not (first.type.is_float or second.type.is_float)
        product = f"{_number(left, first)} * {_number(right, second)}"
        argument = chance.choice(
            [product, f"{product} - {_number(left, first)}", f"{product} + 3 * {_number(left, first)} - 0.5"]
        )
    call = f"{function}({argument})"
    if chance.random() < 0.15:
        held, filtered = chance.choice(slots)
        call += f" FILTER (WHERE {chance.choice(FILTERS[kind_of(filtered)]).format(c=held)})"
    if function == "AVG" or not exact:
        return f"ROUND({call}, 9)", False
    return call, True


def registered(chance: Random, shape: Shape) -> tuple[str, bool]:
    """As `_aggregate`, of the whole registry."""
    if chance.random() < 0.3:
        return _aggregate(chance, shape)
    slots = _slots(shape)
    exact = [s for s in slots if str(s[1].type) in _SMALL and not s[1].type.is_float]
    style, (text, column) = chance.random(), chance.choice(slots)
    call, fits = f"COUNT(DISTINCT {text})", True
    if style < 0.12:
        return _ordered(chance, slots), False
    if style < 0.25:
        condition = chance.choice(FILTERS[kind_of(column)]).format(c=text)
        call = f"{chance.choice(['BOOL_AND', 'BOOL_OR', 'COUNT_IF'])}({condition})"
        fits = call.startswith("COUNT")
    elif style < 0.5 and exact:
        # No quotients: what DuckDB rounds to nearly nothing is nothing here.
        names = ["COVAR_POP", "COVAR_SAMP", "REGR_AVGX", "REGR_AVGY", "REGR_COUNT", "REGR_SXX", "REGR_SYY", "REGR_SXY"]
        call = f"{chance.choice(names)}({chance.choice(exact)[0]}, {chance.choice(exact)[0]})"
    elif style < 0.75 and any(s[1].type.is_integer for s in slots):
        text, column = chance.choice([s for s in slots if s[1].type.is_integer])
        call, fits = f"{chance.choice(['BIT_AND', 'BIT_OR', 'BIT_XOR'])}({text})", False
    elif any(s[1].type.is_numeric for s in slots):
        text, column = chance.choice([s for s in slots if s[1].type.is_numeric])
        name = chance.choice(["SUM", "SUM", "AVG"])
        call, fits = f"{name}(DISTINCT {text})", name == "SUM" and not column.type.is_float
    if chance.random() < 0.15:
        held, filtered = chance.choice(slots)
        call += f" FILTER (WHERE {chance.choice(FILTERS[kind_of(filtered)]).format(c=held)})"
        if not is_one_table(call):
            return "COUNT(TRUE)", True
    if not fits and not call.startswith(("BIT", "BOOL")):
        return f"ROUND({call}, 6)", False
    return call, fits


def _ordered(chance: Random, slots: list[tuple[str, Column]]) -> str:
    """An aggregate that reads a group in order."""
    (first, _), (second, _) = chance.choice(slots), chance.choice(slots)
    direction = chance.choice(["", " DESC", " NULLS FIRST"])
    share = chance.choice(["0", "0.25", "0.5", "0.9", "1"])
    calls = [f"MODE({first})", f"ARG_MIN({first}, {second})", f"ARG_MAX({first}, {second})", f"ANY_VALUE({first})"]
    calls += [f"{chance.choice(['FIRST', 'LAST'])}({first} ORDER BY {second}{direction})"]
    calls += [f"QUANTILE_DISC({first}, {share})", f"MEDIAN({second})"]
    return chance.choice(calls)


def is_one_table(call: str) -> bool:
    """Whether a call reads one atom only."""
    return len(set(re.findall(r"\ba[0-9]+\.", call))) == 1


def _text(chance: Random, shape: Shape, aggregate: Draw) -> tuple[str, list[str]]:
    """An aggregate query, sometimes two in a union, or one as a derived table of another; and its output columns."""
    slots = _slots(shape)
    keys = [text for text, _ in chance.sample(slots, min(len(slots), chance.choice([0, 1, 1, 1, 2])))]
    calls = [aggregate(chance, shape) for _ in range(chance.randint(1, 4))]
    names = [f"o{n}" for n in range(len(keys) + len(calls))]
    text = _grouped(chance, shape, keys, calls)
    # What was rounded may not be told apart: equal here, and another number there.
    exact = [name for name, call in zip(names[len(keys) :], calls, strict=True) if not call[0].startswith("ROUND")]
    style = chance.random()
    if style < 0.1 and len(exact) == len(calls):
        return f"{text} UNION {chance.choice(['', 'ALL '])}{_grouped(chance, shape, keys, calls)}", names
    if style < 0.2 and exact:
        one, other = chance.choice(exact), chance.choice(names[: len(keys)] + exact)
        text = f"SELECT d.{one} AS p0, COUNT(*) AS p1, MAX(d.{other}) AS p2 FROM ({text}) AS d GROUP BY d.{one}"
        return text, ["p0", "p1", "p2"]
    return text, names


def _grouped(chance: Random, shape: Shape, keys: list[str], calls: list[tuple[str, bool]]) -> str:
    """The groups of some keys with some aggregates, over rows and with a HAVING drawn anew."""
    conditions = []
    if chance.random() < 0.25:
        held, filtered = chance.choice(_slots(shape))
        conditions.append(chance.choice(FILTERS[kind_of(filtered)]).format(c=held))
    if chance.random() < 0.6:
        conditions += [condition for condition, _ in tested(chance, shape)]
    items = [f"{item} AS o{n}" for n, item in enumerate([*keys, *(call for call, _ in calls)])]
    text = plain_sql(shape, items, conditions, distinct=False)
    if keys:
        text += f" GROUP BY {', '.join(keys)}"
    fit = ["COUNT(*)", *(call for call, is_fit in calls if is_fit)]
    if chance.random() < 0.25:
        text += f" HAVING {chance.choice(fit)} {chance.choice(['> 1', '< 3', '<> 2'])}"
    return text


def _order(chance: Random, columns: list[str]) -> tuple[OrderKey, ...]:
    """Some output columns, groups and aggregates alike, up or down."""
    some = chance.sample(columns, chance.randint(1, len(columns)))
    return tuple(OrderKey(column, chance.random() < 0.5) for column in some)


def draw_aggregate(chance: Random, spec: Spec, name: str, atoms: int = 4, aggregate: Draw = _aggregate) -> Drawn:
    """An aggregate query over so many atoms at most, in the steps in which it is kept."""
    while True:
        shape = Shape(chance, spec.relations)
        if len(shape.atoms) > atoms:
            continue
        text, columns = _text(chance, shape, aggregate)
        order = _order(chance, columns) if chance.random() < 0.4 else ()
        made = _drawn(spec, name, text, order)
        if made is not None:
            return made


def _drawn(
    spec: Spec,
    name: str,
    text: str,
    order: tuple[OrderKey, ...] = (),
    language: str = "sql",
    semantics: Semantics | None = None,
) -> Drawn | None:
    """The query as it is kept; None if it is refused."""
    try:
        asked = QuerySpec(name, language, (Text(text, "spec.yaml", ((0, 1, 1),)),), semantics, order)
        query = compile_query(spec, asked)
    except SpecError:
        return None
    program = program_of(query, spec)
    asked_text = duckdb_text(asked, spec)
    oracle = as_sql(query) if asked_text is None else asked_text
    return Drawn(name, language, text, semantics, oracle, plan_of(program), program, order_by=order)


def random_aggregates(seed: int, queries: int, batches: int = 6, atoms: int = 4) -> Case:
    chance = Random(f"aggregates {seed}")
    spec = Spec("spec.yaml", random_relations(chance), ())
    drawn = tuple(draw_aggregate(chance, spec, f"q{i}", atoms) for i in range(queries))
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))


def random_registered(seed: int, queries: int, batches: int = 6) -> Case:
    """Aggregates of the whole registry, over up to three atoms."""
    chance = Random(f"registered {seed}")
    spec = Spec("spec.yaml", random_relations(chance), ())
    drawn = tuple(draw_aggregate(chance, spec, f"q{i}", 3, registered) for i in range(queries))
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))


def _joinable(chance: Random) -> tuple[Relation, ...]:
    """Relations of numbers, few of them with a key, so that most joins are many-to-many."""
    made = []
    for r in range(chance.randint(1, 3)):
        columns = []
        for c in range(chance.randint(2, 4)):
            kind = chance.choice(["int64", "int64", "int32", "decimal(9,2)"] if c else ["int64"])
            columns.append(Column(f"c{c}", parse_type(kind)[0], chance.random() < 0.3))
        key: tuple[str, ...] = ()
        if chance.random() < 0.2:
            key = (columns[0].name,)
            columns[0] = Column(key[0], columns[0].type)
        made.append(Relation(f"R{r}", tuple(columns), key))
    return tuple(made)


def _rule(chance: Random, shape: Shape) -> str:
    """An aggregate over the distinct bindings of variables: all that join, and some others."""
    classes = shape.classes()
    sizes = Counter(classes.values())
    names: dict[tuple[int, str], str] = {}
    for slot, first in classes.items():
        if sizes[first] > 1 or chance.random() < 0.6:
            names[slot] = f"v{first[0]}_{first[1]}"
    atoms = []
    for i, relation in enumerate(shape.atoms):
        atoms.append(f"{relation.name}({', '.join(names.get((i, c.name), '_') for c in relation.columns)})")
    variables = list(dict.fromkeys(names.values()))
    if not variables:
        return f"q(n = count()) :- {', '.join(atoms)}"
    groups = chance.sample(variables, min(len(variables), chance.choice([0, 1, 1, 2])))
    calls = []
    for n in range(chance.randint(1, 3)):
        call = chance.choice(["sum({})"] * 4 + ["avg({})", "count()", "count()", "min({})", "count(distinct {})"])
        calls.append(f"m{n} = {call.format(chance.choice(variables))}")
    compared = []
    if len(variables) > 1 and chance.random() < 0.15:
        compared.append(" < ".join(chance.sample(variables, 2)))
    return f"q({', '.join([*groups, *calls])}) :- {', '.join([*atoms, *compared])}"


def is_pushed(program: Program) -> bool:
    """Whether sums of parts are multiplied: a relation of groups has columns that others are summed up from."""
    groups = [s.groups for s in program.steps if isinstance(s, Derived) and s.groups]
    parts = {m.aggregate.name for g in groups[:-1] for m in g.measures}
    taken = [n for g in groups for m in g.measures for n in (*(n for names in m.factors for n in names), *m.counted)]
    return any(name in parts for name in taken)


def random_sums(seed: int, queries: int, batches: int = 6) -> Case:
    """Aggregates over joins of two to four atoms, self-joins among them."""
    chance = Random(f"sums {seed}")
    spec = Spec("spec.yaml", _joinable(chance), ())
    drawn: list[Drawn] = []
    while len(drawn) < queries:
        shape = Shape(chance, spec.relations)
        if not 2 <= len(shape.atoms) <= 4:
            continue
        name = f"q{len(drawn)}"
        if chance.random() < 0.4:
            made = _drawn(spec, name, _rule(chance, shape), (), "rule", chance.choice([None, None, "bag"]))
        else:
            text, columns = _text(chance, shape, _aggregate)
            made = _drawn(spec, name, text, _order(chance, columns) if chance.random() < 0.2 else ())
        if made is not None:
            drawn.append(made)
    return Case(seed, spec, tuple(drawn), tuple(random_history(chance, spec, batches)))
