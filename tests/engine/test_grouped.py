"""Groups fed with rows that come and go agree with DuckDB's GROUP BY after every commit, and keep every invariant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.engine.random_history import DOMAINS, value_of

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.check import check_arena, check_table
from dynq_cli.engine.codes import Codes, arrow_type, decode, encode, float_codes, floats, needs_labels
from dynq_cli.engine.counted_tree import Sizes
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.group_layout import group_layout
from dynq_cli.engine.grouped import AggregateOverflowedError, Grouped
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.labels import Labels
from dynq_cli.engine.pairs import joined, split
from dynq_cli.plan.program import Groups, Measure, high, low
from dynq_cli.query.normal_form import Aggregate, AggregateFunction, Factor, Monomial, Scalar
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import FLOAT64, INT64, Type, decimal, parse_type

SMALL = Sizes((2, 4, 6, 8), (4, 6, 8))
Row = tuple[Any, ...]


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, *parse_type(text)) for name, text in types.items())


def is_wide(kind: Type) -> bool:
    return kind.name == "decimal" and kind.precision > 18


@dataclass(frozen=True)
class Case:
    """Columns of which the first few are keys, and aggregates: a function and what it is of.

    `sum`, `avg` and `count` are of [(coefficient, columns multiplied)…]; the others of a column.
    """

    columns: tuple[Column, ...]
    keys: int
    aggregates: tuple[tuple[AggregateFunction, Any], ...]
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

    def _measure(self, i: int, function: AggregateFunction, of: Any) -> Measure:
        if function in ("min", "max", "count_distinct"):
            kind = INT64 if function == "count_distinct" else self.type_of(of)
            return Measure(Aggregate(f"m{i}", function, kind, True, variable=of), value=of)
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
        scales = [sum(k.scale for k in ks) - int(Decimal(c).as_tuple().exponent) for (c, _), ks in zip(of, kinds)]
        return decimal(38, max(scales))

    @property
    def sql(self) -> str:
        items = [c.name for c in self.columns[: self.keys]]
        for measure in self.groups.measures:
            a = measure.aggregate
            if a.variable is not None:
                call = "COUNT(DISTINCT {})" if a.function == "count_distinct" else a.function + "({})"
                items.append(call.format(a.variable))
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
        layout, tables = group_layout(case.groups, 1, sizes)
        tables.insert(0, [-1] * f.T_FIELDS)
        tables[0][f.T_STRIDE] = tables[0][f.T_CAPACITY] = tables[0][f.T_MASK] = 0
        self.arena = Arena(np.array(tables, np.int64), np.zeros((0, f.N_FIELDS), np.int64))
        self.dictionaries = Dictionaries()
        self.labels = {"string": Labels(), "binary": Labels()}
        self.grouped = Grouped(self.arena, layout, self._labels)
        for table in range(1, len(tables)):
            if tables[table][f.T_MASK] >= 0:
                self.arena.reserve(table, 1)
        self.rows: Counter[Row] = Counter()
        self.given: Counter[Row] = Counter()
        self.grouped.start()
        self.settle()

    def _labels(self, kind: Type) -> Codes:
        labels = self.labels[kind.name]
        labels.update(self.dictionaries.of(kind))
        return labels.labels

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
            for row, many in zip(zip(*codes.tolist()) if len(codes) else [()] * len(copies), copies.tolist()):
                self.given[row] += many
            signs += copies.tolist()
        self.given = +Counter({row: n for row, n in self.given.items() if n})
        return signs

    def result(self) -> list[Row]:
        many = list(self.given)
        assert all(n == 1 for n in self.given.values()), "a group has one row"
        codes = [np.array(column, np.int64) for column in zip(*many)]
        decoded, i = [], 0
        for place, kind in enumerate(self.case.results):
            if is_wide(kind) and place >= self.case.keys:
                decoded.append(joined(codes[i], codes[i + 1], kind) if codes else pa.array([]))
                i += 1
            else:
                decoded.append(decode(codes[i], kind, self.dictionaries) if codes else pa.array([]))
            i += 1
        return list(zip(*(d.to_pylist() for d in decoded)))

    def expected(self) -> list[Row]:
        rows = [row for row, many in self.rows.items() for _ in range(many)]
        arrays = [pa.array([r[i] for r in rows], arrow_type(c.type)) for i, c in enumerate(self.case.columns)]
        t = pa.table(arrays, names=[c.name for c in self.case.columns])  # noqa: F841
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            connection.register("t", t)
            return connection.execute(self.case.sql).fetchall()

    def check(self) -> None:
        check_arena(self.arena)
        for table in range(1, len(self.arena.T)):
            if self.arena.T[table, f.T_MASK] >= 0:
                check_table(self.arena, table)
        self.grouped._check()
        assert Counter(zip(*self.grouped.rows().tolist())) == self.given or not self.case.columns


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
            *((function, c) for function in ("min", "max", "count_distinct") for c in ("s", "b", "t", "w", "f", "i")),  # type: ignore[arg-type]
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
@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_duckdb_after_every_commit(name: str, seed: int) -> None:
    chance, fed = Random(f"{name} {seed}"), Fed(CASES[name])
    many = chance.choice([3, 12, 60])
    for _ in range(14):
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
