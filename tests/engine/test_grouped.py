"""Groups fed with rows that come and go agree with DuckDB's GROUP BY after every commit, and keep every invariant."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.check import check_arena, check_table
from dynq_cli.engine.codes import Codes, arrow_type, decode, encode, float_codes
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.grouped import AggregateOverflowedError, by_itself
from dynq_cli.engine.order_statistic_tree import Sizes
from dynq_cli.engine.pairs import joined, split
from dynq_cli.plan.program import Groups, Measure, high, low
from dynq_cli.query.normal_form import Aggregate, Factor, Monomial, Scalar
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import FLOAT64, INT64, Type, decimal, parse_type
from tests.engine.random_history import value_of

SMALL = Sizes((2, 4, 6, 8), (4, 6, 8))
Row = tuple[Any, ...]


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, *parse_type(text)) for name, text in types.items())


def rows_of_codes(codes: Codes) -> list[Row]:
    return [tuple(row) for row in codes.T.tolist()]


def is_wide(kind: Type) -> bool:
    return kind.name == "decimal" and kind.precision > 18


@dataclass(frozen=True)
class Case:
    """Columns of which the first few are keys, and aggregates: a function and what it is of.

    `sum`, `avg` and `count` are of [(coefficient, columns multiplied)…]; the others of a column.
    """

    columns: tuple[Column, ...]
    keys: int
    aggregates: tuple[tuple[str, Any], ...]
    one_row: bool = False

    def type_of(self, name: str) -> Type:
        return next(c.type for c in self.columns if c.name == name)

    @property
    def groups(self) -> Groups:
        inputs: list[Column] = []
        for i, c in enumerate(self.columns):
            if is_wide(c.type) and i >= self.keys:
                inputs += [Column(high(c.name), INT64, c.nullable), Column(low(c.name), INT64, c.nullable)]
            else:
                inputs.append(c)
        measures = tuple(self._measure(i, *each) for i, each in enumerate(self.aggregates))
        keys = tuple(c.name for c in self.columns[: self.keys])
        return Groups(tuple(inputs), keys, measures, self.one_row)

    def _measure(self, i: int, function: str, of: Any) -> Measure:
        if function in ("min", "max", "count_distinct"):
            kind = INT64 if function == "count_distinct" else self.type_of(of)
            return Measure(Aggregate(f"m{i}", function, kind, True, variables=(of,)), values=(of,))
        monomials = []
        for coefficient, names in of:
            factors = (Factor(0, Scalar(name, self.type_of(name), True, (name,))) for name in names)
            monomials.append(Monomial(Decimal(coefficient), tuple(factors)))
        kind = {"count": INT64, "avg": FLOAT64}.get(function) or self._sum_type(of)
        made = Aggregate(f"m{i}", function, kind, True, tuple(monomials))
        return Measure(made, tuple(tuple(names) for _, names in of))

    def _sum_type(self, of: Any) -> Type:
        kinds = [[self.type_of(n) for n in names] for _, names in of]
        if any(k.is_float for several in kinds for k in several):
            return FLOAT64
        digits = [-int(Decimal(coefficient).as_tuple().exponent) for coefficient, _ in of]
        return decimal(38, max(d + sum(k.scale for k in ks) for d, ks in zip(digits, kinds, strict=True)))

    @property
    def sql(self) -> str:
        items = [c.name for c in self.columns[: self.keys]]
        for measure in self.groups.measures:
            a = measure.aggregate
            if a.variables:
                call = "COUNT(DISTINCT {})" if a.function == "count_distinct" else a.function + "({})"
                items.append(call.format(*a.variables))
            elif a.function == "count":
                names = " AND ".join(f"{n} IS NOT NULL" for names in measure.factors for n in names)
                items.append(f"COUNT(CASE WHEN {names or 'TRUE'} THEN 1 END)")
            else:
                pairs = zip(a.monomials, measure.factors, strict=True)
                terms = " + ".join(" * ".join([f"({m.coefficient:f})", *names]) for m, names in pairs)
                items.append(f"CAST({a.function}({terms}) AS {a.type.sql})")
        keys = ", ".join(str(i + 1) for i in range(self.keys))
        tail = f" GROUP BY {keys}" if keys else "" if self.one_row else " HAVING COUNT(*) > 0"
        return f"SELECT {', '.join(items)} FROM t{tail}"

    @property
    def results(self) -> list[Type]:
        return [c.type for c in self.columns[: self.keys]] + [m.aggregate.type for m in self.groups.measures]


class Fed:
    """Groups in an arena of their own, and the rows they have been given."""

    def __init__(self, case: Case, sizes: Sizes = SMALL) -> None:
        self.case = case
        self.dictionaries = Dictionaries({"string", "binary"})
        self.grouped = by_itself(case.groups, self.dictionaries.labels_of, sizes)
        self.arena = self.grouped.arena
        self.rows: Counter[Row] = Counter()
        self.given: Counter[Row] = Counter()
        self.settle()

    def codes(self, rows: Sequence[Row]) -> Codes:
        coded: list[Codes] = []
        for i, c in enumerate(self.case.columns):
            values = pa.array([row[i] for row in rows], arrow_type(c.type))
            if is_wide(c.type) and i >= self.case.keys:
                coded += split(values, c.type)
            else:
                coded.append(encode(values, c.type, self.dictionaries))
        return np.stack(coded)

    def take(self, rows: Sequence[Row], copies: Sequence[int]) -> None:
        if rows:
            self.grouped.take(self.codes(rows), np.array(copies, np.int64))

    def settle(self) -> list[int]:
        """Take the changes over into `given`."""
        signs: list[int] = []
        for codes, copies in self.grouped.changes():
            for row, many in zip(rows_of_codes(codes), copies.tolist(), strict=True):
                self.given[row] += many
            signs += copies.tolist()
        self.given = +Counter({row: n for row, n in self.given.items() if n})
        return signs

    def result(self) -> list[Row]:
        many = list(self.given)
        assert all(n == 1 for n in self.given.values()), "a group has one row"
        codes = [np.array(column, np.int64) for column in zip(*many, strict=True)]
        decoded, i = [], 0
        for place, kind in enumerate(self.case.results):
            if is_wide(kind) and place >= self.case.keys:
                decoded.append(joined(codes[i], codes[i + 1], kind) if codes else pa.array([]))
                i += 1
            else:
                decoded.append(decode(codes[i], kind, self.dictionaries) if codes else pa.array([]))
            i += 1
        return list(zip(*(d.to_pylist() for d in decoded), strict=True))

    def expected(self) -> list[Row]:
        rows = [row for row, many in self.rows.items() for _ in range(many)]
        arrays = [pa.array([r[i] for r in rows], arrow_type(c.type)) for i, c in enumerate(self.case.columns)]
        t = pa.table(arrays, names=[c.name for c in self.case.columns])
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            connection.register("t", t)
            return connection.execute(self.case.sql).fetchall()

    def check(self) -> None:
        check_arena(self.arena)
        for table in range(len(self.arena.tables)):
            if self.arena.tables["mask"][table] >= 0:
                check_table(self.arena, table)
        self.grouped._check()
        self.dictionaries._check()
        assert Counter(rows_of_codes(self.grouped.rows())) == self.given


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.12g}")
    return value


def same(found: Iterable[Row], expected: Iterable[Row]) -> None:
    shown = [sorted((tuple(map(comparable, row)) for row in rows), key=repr) for rows in (found, expected)]
    assert shown[0] == shown[1]


NUMBERS = columns(g="string?", h="int32?", i="int64?", d="decimal(15,2)?", e="decimal(12,4)", w="decimal(30,3)?")
MIXED = columns(g="date?", x="float64?", y="float32?", z="float32?", d="decimal(15,2)?", i="int32?")
OTHERS = columns(g="bool", s="string?", b="binary?", t="timestamp?", w="decimal(38,2)?", f="float64?", i="int8")

CASES = {
    "exact": Case(
        NUMBERS,
        2,
        (
            ("count", []),
            ("count", [("1", ["i"]), ("1", ["d", "e"])]),
            ("sum", [("1", ["i"])]),
            ("avg", [("1", ["i"])]),
            ("sum", [("1", ["d"]), ("-1", ["d", "e"]), ("2.50", ["i"])]),
            ("sum", [("1", ["w"])]),
            ("avg", [("-0.5", ["w", "h"])]),
            ("avg", [("1", ["d"])]),
        ),
    ),
    "doubles": Case(
        MIXED,
        1,
        (
            ("sum", [("1", ["x"])]),
            ("avg", [("1", ["x"])]),
            ("sum", [("1", ["y", "z"])]),
            ("sum", [("0.5", ["y"]), ("1", ["d", "x"]), ("3", ["i"])]),
            ("avg", [("1", ["y"]), ("1", ["i"])]),
            ("count", [("1", ["x"])]),
        ),
    ),
    "values": Case(
        OTHERS,
        1,
        (
            *((function, c) for function in ("min", "max", "count_distinct") for c in ("s", "b", "t", "w", "f", "i")),
            ("count", [("1", ["s"])]),
        ),
    ),
    "one row": Case(
        OTHERS, 0, (("count", []), ("sum", [("1", ["f"])]), ("max", "s"), ("sum", [("1", ["i"])])), one_row=True
    ),
    "no keys": Case(OTHERS, 0, (("count", []), ("min", "w"), ("avg", [("1", ["i"])]))),
    "keys only": Case(OTHERS, 2, ()),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_groups_are_those_of_duckdb_after_every_commit(name: str, seed: int) -> None:
    chance, fed = Random(f"{name} {seed}"), Fed(CASES[name])
    many = chance.choice([3, 12, 60])
    for _ in range(10):
        came = [tuple(value_of(chance, c) for c in fed.case.columns) for _ in range(chance.randrange(many))]
        changes = [(row, chance.choice([1, 1, 1, 3])) for row in came]
        here = [row for row, n in fed.rows.items() for _ in range(n)]
        share = chance.choice([0.1, 0.5, 1.0])
        changes += [(row, -1) for row in here if chance.random() < share]
        fleeting = [(row, sign) for row in came[:2] for sign in (1, -1)]
        changes += fleeting
        chance.shuffle(changes)
        for row, n in changes:
            fed.rows[row] += n
        fed.rows = +Counter({row: n for row, n in fed.rows.items() if n})
        cut = chance.randrange(len(changes) + 1)
        for part in (changes[:cut], changes[cut:]):
            fed.take([row for row, _ in part], [n for _, n in part])
        fed.settle()
        fed.check()
        same(fed.result(), fed.expected())


def test_a_group_whose_row_stays_the_same_gives_no_change() -> None:
    fed = Fed(Case(columns(g="int64", x="float64"), 1, (("sum", [("1", ["x"])]), ("max", "x"))))
    fed.take([(1, 0.1), (1, 0.2), (2, 5.0)], [1, 1, 1])
    assert fed.settle() == [1, 1]
    fed.take([(1, 0.1), (1, 1e-30), (1, 0.1), (3, 7.0), (3, 7.0)], [1, 1, -1, 1, -1])
    assert fed.settle() == [], "0.1 + 0.2 + 1e-30 is the same double"
    fed.take([(1, 1e-30), (2, 5.0), (2, 2.0)], [-1, -1, 1])
    assert fed.settle() == [-1, 1]
    fed.check()


def test_sums_of_doubles_are_where_they_were_after_a_million_rows_came_and_went() -> None:
    fed = Fed(Case(columns(g="int64", x="float64"), 1, (("sum", [("1", ["x"])]), ("avg", [("1", ["x"])]))))
    numbers = np.random.default_rng(7)
    fed.take([(g, 0.1 * g) for g in range(10)], [1] * 10)
    fed.settle()
    before = fed.result()
    values = numbers.standard_normal(1_000_000) * 10.0 ** numbers.integers(-300, 300, 1_000_000)
    values[[5, 77, 400_000, 999_999]] = math.nan, math.inf, -math.inf, math.inf
    codes = np.stack([numbers.integers(0, 10, 1_000_000), float_codes(values)])
    fed.grouped.take(codes, np.ones(1_000_000, np.int64))
    fed.settle()
    assert sorted(fed.result()) != sorted(before)
    order = numbers.permutation(1_000_000)
    fed.grouped.take(codes[:, order], np.full(1_000_000, -1, np.int64))
    fed.settle()
    fed.check()
    assert sorted(fed.result()) == sorted(before)


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_any_doubles_are_correctly_rounded(seed: int) -> None:
    chance = Random(seed)
    fed = Fed(Case(columns(g="int64", x="float64"), 1, (("sum", [("1", ["x"])]),)))
    kept: dict[int, list[tuple[float, int]]] = {}
    for _ in range(120):
        g = chance.randrange(6)
        spread = (1, 30, 150, 1070)[g % 4]
        x = math.ldexp(chance.choice([-1, 1]) * chance.random(), chance.randrange(-spread, min(spread, 1020)))
        x = chance.choice([x, x, float(chance.randrange(9)), 5e-324, sys.float_info.max])
        copies = chance.choice([1, 1, 2, 2**40])
        mine = kept.setdefault(g, [])
        if mine and chance.random() < 0.4:
            x, copies = mine.pop(chance.randrange(len(mine)))
            fed.take([(g, x)], [-copies])
        else:
            mine.append((x, copies))
            fed.take([(g, x)], [copies])
        fed.settle()
        assert dict(fed.result()) == {k: nearest(sum(Fraction(x) * n for x, n in of)) for k, of in kept.items() if of}
    fed.check()


def nearest(number: Fraction | int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@pytest.mark.parametrize(
    ("aggregates", "rows"),
    [
        ((("sum", [("1", ["w"])]),), [(Decimal(10**38 - 1), 0), (Decimal(1), 0)]),
        ((("avg", [("1", ["w", "i"])]),), [(Decimal(10**38 - 1), 2)]),
        ((("count", []),), [(Decimal(0), 0)] * 2),
    ],
)
def test_what_does_not_fit_is_an_error(aggregates: Any, rows: list[Row]) -> None:
    fed = Fed(Case(columns(w="decimal(38,0)", i="int64"), 0, aggregates))
    with pytest.raises(AggregateOverflowedError):
        fed.take(rows, [2**63 - 1 if aggregates[0][0] == "count" else 1] * len(rows))
        fed.settle()


def test_sums_and_extremes_of_38_digits_are_exact() -> None:
    case = Case(columns(w="decimal(38,4)?"), 0, (("sum", [("1", ["w"])]), ("min", "w"), ("max", "w")))
    fed, largest = Fed(case), Decimal(10**38 - 1).scaleb(-4, context=Context(prec=40))
    least = largest.copy_negate()
    for value, copies, expected in [
        (largest, 1, (largest, largest, largest)),
        (least, 1, (0, least, largest)),
        (None, 1, (0, least, largest)),
        (largest, -1, (least, least, least)),
        (least, -1, (None, None, None)),
    ]:
        fed.take([(value,)], [copies])
        fed.settle()
        assert fed.result() == [expected]
