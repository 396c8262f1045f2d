"""Random aggregate queries: every function over every type, of one atom and across atoms, with and without GROUP BY.

With HAVING, subqueries, derived tables, unions, and orders.
"""

from __future__ import annotations

from random import Random

from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, OrderKey, QuerySpec, Spec, Text
from tests.engine.random_history import kind_of, random_history
from tests.engine.random_queries import FILTERS, Case, Drawn, Shape, plain_sql, plan_of, random_relations, tested

# Products of these fit DuckDB's types, so that it can be asked for them.
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


def _text(chance: Random, shape: Shape) -> tuple[str, list[str]]:
    """An aggregate query, sometimes two in a union, or one as a derived table of another; and its output columns."""
    slots = _slots(shape)
    keys = [text for text, _ in chance.sample(slots, min(len(slots), chance.choice([0, 1, 1, 1, 2])))]
    calls = [_aggregate(chance, shape) for _ in range(chance.randint(1, 4))]
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


def draw_aggregate(chance: Random, spec: Spec, name: str, atoms: int = 4) -> Drawn:
    """An aggregate query over so many atoms at most, in the steps in which it is kept."""
    while True:
        shape = Shape(chance, spec.relations)
        if len(shape.atoms) > atoms:
            continue
        text, columns = _text(chance, shape)
        order = _order(chance, columns) if chance.random() < 0.4 else ()
        try:
            asked = QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),), order_by=order)
            query = compile_query(spec, asked)
        except SpecError:
            continue
        program = program_of(query, spec)
        return Drawn(name, "sql", text, None, text, plan_of(program), program, order_by=order)


def random_aggregates(seed: int, queries: int, batches: int = 6, atoms: int = 4) -> Case:
    chance = Random(f"aggregates {seed}")
    spec = Spec("spec.yaml", random_relations(chance), ())
    drawn = tuple(draw_aggregate(chance, spec, f"q{i}", atoms) for i in range(queries))
    return Case(seed, spec, drawn, tuple(random_history(chance, spec, batches)))
