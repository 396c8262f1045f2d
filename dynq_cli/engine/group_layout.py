"""The tables and accumulators of an aggregate query's groups. The layout depends only on the plan.

    groups   keyed by the group key; a record has the number of rows, the current result row, and accumulators
    values   per column of MIN, MAX or an aggregate of DISTINCT values: keyed by (group, value), with multiplicities
    spills   parts of double sums outside their window, NaN and infinities: keyed by (group, accumulator)
    pools    blocks of the order-statistic trees over the values of each group, for MIN and MAX

Measures that need the same accumulator share it: SUM(x) and AVG(x), MIN(y) and COUNT(DISTINCT y).
"""

from __future__ import annotations

from dataclasses import field, replace
from decimal import Decimal

import numpy as np

from dynq_cli.engine.codes import needs_labels
from dynq_cli.engine.kernels import aggregate_rows as r
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.exact_sums import SUM
from dynq_cli.engine.kernels.fields import Rows, Words
from dynq_cli.engine.kernels.order_statistic_blocks import LANES, UNIT
from dynq_cli.engine.kernels.products import DOUBLES, INTEGERS, PAIRS, PRODUCT_WORDS
from dynq_cli.engine.kernels.superaccumulator import S_KEY, SPILL_WORDS, WINDOW_WORDS
from dynq_cli.engine.order_statistic_tree import OrderKey, Sizes, TreeDescription, pools
from dynq_cli.plan.program import Groups, Measure, high, low
from dynq_cli.query.aggregates import basic
from dynq_cli.query.aggregates.definition import Reading
from dynq_cli.query.aggregates.ordered import Key, fraction_of, keys_of
from dynq_cli.query.normal_form import Aggregate
from dynq_cli.records import record
from dynq_cli.spec.types import INT64, Type

NONE = -1
_NARROW_DIGITS = 18
_CONT: dict[str, tuple[int, int]] = {
    # How a value between two is made, by type, and what it is multiplied by.
    "date": (r.BETWEEN_INTEGERS, 86_400_000_000),
    "time": (r.BETWEEN_INTEGERS, 1),
    "timestamp": (r.BETWEEN_INTEGERS, 1),
    "decimal": (r.BETWEEN_INTEGERS, 0),
    "float32": (r.BETWEEN_FLOATS, 0),
    "float64": (r.BETWEEN_DOUBLES, 0),
}
# What is read of the values of a group, and of its bits.
_OF_VALUES: dict[Reading, int] = {"least": r.LEAST, "greatest": r.GREATEST, "count": r.COUNT}
_OF_BITS: dict[Reading, int] = {"all": r.BITS_OF_ALL, "any": r.BITS_OF_ANY, "odd": r.BITS_ODD}
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@record(frozen=True)
class Factor:
    """A factor of a monomial: its input columns (two for a wide decimal) and its type."""

    columns: tuple[int, ...]
    type: Type


@record(frozen=True)
class Term:
    coefficient: Decimal
    factors: tuple[Factor, ...]


@record(frozen=True)
class Counts:
    place: int
    columns: Words


@record(frozen=True)
class Exact:
    """An exact sum. `polynomial` is encoded as in `kernels.exact_sums`, in units of 10^-scale."""

    place: int
    columns: Words
    polynomial: Words
    name: str


@record(frozen=True)
class Doubles:
    place: int
    number: int
    terms: tuple[Term, ...]


@record(frozen=True)
class Values:
    """A table of values. `labels` is the type whose labels order them, or None; `tree` is -1 if no order is needed.

    `exact` and `doubles` are the places of accumulators for the sum of the values, each taken once, or -1; `number` is
    that of the latter among all that may spill. Rows with NULL in one of the columns `required` are left out. `order`
    says what the tree does with the copies of a value.
    """

    place: int
    table: int
    columns: Words
    tree: int = NONE
    labels: Type | None = None
    exact: int = NONE
    doubles: int = NONE
    number: int = NONE
    required: Words | None = None
    order: int = r.BY_VALUE
    pool: int = NONE


@record(frozen=True)
class Bits:
    """How many rows have each bit of a column; first how many are not NULL."""

    place: int
    column: int
    many: int


@record(frozen=True)
class Product:
    """The product of a column; `given` is what `kernels.products` is told of it."""

    place: int
    given: Words
    name: str


@record()
class GroupLayout:
    """`rows` is the word of a group's record with its number of rows; the result row and accumulators follow."""

    groups: Groups
    table: int
    rows: int
    width: int
    counts: list[Counts] = field(default_factory=list)
    exact: list[Exact] = field(default_factory=list)
    doubles: list[Doubles] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    bits: list[Bits] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    measures: list[list[int]] = field(default_factory=list)
    trees: list[TreeDescription] = field(default_factory=list)
    spills: int = NONE

    @property
    def measured(self) -> Rows:
        """The measures, as `kernels.aggregate_rows` has them."""
        return f.rows_of(r.MEASURE, np.array(self.measures, np.int64))

    @property
    def sums(self) -> tuple[Rows, Words]:
        """The exact sums, as `kernels.exact_sums` has them, and the numbers they point at."""
        rows: list[list[int]] = []
        numbers: list[Words] = []
        taken = 0
        for e in self.exact:
            rows.append([e.place, taken, taken + len(e.polynomial), len(e.columns)])
            numbers += [e.polynomial, e.columns]
            taken += len(e.polynomial) + len(e.columns)
        flat = np.concatenate([*numbers, np.zeros(1, np.int64)])
        return f.rows_of(SUM, np.array(rows, np.int64)), flat

    @property
    def spilling(self) -> list[tuple[int, int]]:
        """Place and number of each sum of doubles."""
        summed = [(v.doubles, v.number) for v in self.values if v.doubles != NONE]
        return [*((d.place, d.number) for d in self.doubles), *summed]

    @property
    def roots(self) -> Words:
        return np.array([2 * v.place + 2 for v in self.values], np.int64)


def group_layout(
    groups: Groups, first_table: int, sizes: Sizes | None = None
) -> tuple[GroupLayout, list[dict[str, int]]]:
    """The layout of groups whose tables begin at a number, and those tables."""
    return _Builder(groups, first_table, sizes or Sizes()).build()


def columns_of(groups: Groups) -> int:
    """Return the number of columns of the groups' relation."""
    return len(groups.keys) + sum(_width(m.aggregate.type) for m in groups.measures)


def _width(kind: Type) -> int:
    return 2 if kind.name == "decimal" and kind.precision > _NARROW_DIGITS else 1


def table_of(arity: int, words: int) -> dict[str, int]:
    """A table for records of so many words, and one more for the mark."""
    row = f.blank(f.TABLE)
    row["arity"] = row["hashed"] = arity
    row["capacity"] = row["used"] = row["live"] = row["mask"] = 0
    row["stride"], row["mark"] = words + 1, 2 * words
    return row


class _Builder:
    def __init__(self, groups: Groups, first_table: int, sizes: Sizes) -> None:
        self.groups = groups
        self.sizes = sizes
        self.first = first_table
        self.names = [c.name for c in groups.inputs]
        self.types = {c.name: c.type for c in groups.inputs}
        width = columns_of(groups) - len(groups.keys)
        # The first word of a free row links to the next free row.
        self.layout = GroupLayout(groups, first_table, max(1, len(groups.keys)), width)
        self.words = self.layout.rows + 2 + width
        self.tables: list[dict[str, int]] = [{}]
        self.shared: dict[object, int] = {}

    def build(self) -> tuple[GroupLayout, list[dict[str, int]]]:
        assert tuple(self.names[: len(self.groups.keys)]) == self.groups.keys, "keys come first"
        column = 0
        for measure in self.groups.measures:
            many = _width(measure.aggregate.type)
            fields = self._measure(measure)
            self.layout.measures.append([*fields[:5], *(fields[5:] or [1, 0]), column, many])
            column += many
        self.tables[0] = table_of(len(self.groups.keys), self.words)
        return self.layout, self.tables

    def _take(self, words: int) -> int:
        place = self.words
        self.words += words
        return place

    def _new_table(self, row: dict[str, int]) -> int:
        self.tables.append(row)
        return self.first + len(self.tables) - 1

    def _at(self, name: str) -> tuple[int, ...]:
        """Return the input columns of a value."""
        if name in self.types:
            return (self.names.index(name),)
        return self.names.index(high(name)), self.names.index(low(name))

    def _measure(self, measure: Measure) -> list[int]:
        """Return the fields of a measure up to its digits, or up to its fraction."""
        a = measure.aggregate
        definition = basic(a.function)
        if definition.state == "bits":
            return self._of_bits(measure)
        if definition.state == "product":
            return self._of_product(measure)
        if definition.state != "sums":
            return self._of_values(measure)
        terms = self._terms(measure)
        if definition.reading == "count":
            if measure.counted:
                return [r.SUM_OR_ZERO, self._exact(a, self._counted(measure, terms), 0), NONE, NONE, 0]
            return [r.COUNT, self._counts(terms), NONE, NONE, 0]
        is_sum = definition.reading == "sum"
        if a.type.is_float if is_sum else _any_float(terms):
            kind = r.SUM_OF_DOUBLES if is_sum else r.AVG_OF_DOUBLES
            place = self._doubles(terms)
            counted = NONE
            if measure.counted and not is_sum:
                counted = self._exact(a, self._counted(measure, terms), 0)
            return [kind, place, self.layout.spills, counted, 0]
        scale = max([_scale(t) for t in terms] + [a.type.scale])
        place = self._exact(a, terms, scale)
        if is_sum:
            return [r.SUM, place, NONE, NONE, scale - a.type.scale]
        counted = self._exact(a, self._counted(measure, terms), 0) if measure.counted else NONE
        return [r.AVG, place, counted, NONE, scale]

    def _terms(self, measure: Measure) -> tuple[Term, ...]:
        made = []
        for monomial, names in zip(measure.aggregate.monomials, measure.factors, strict=True):
            factors = tuple(
                Factor(self._at(name), factor.scalar.type) for name, factor in zip(names, monomial.factors, strict=True)
            )
            made.append(Term(monomial.coefficient, factors))
        return tuple(made)

    def _counted(self, measure: Measure, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        """Return the terms that count rows without a NULL factor: also those of terms that are 0."""
        counts = Term(Decimal(1), tuple(Factor(self._at(name), INT64) for name in measure.counted))
        given = [f for m in measure.aggregate.monomials for f in m.factors]
        factors = [f for term in terms for f in term.factors]
        nullable = dict.fromkeys(f for f, said in zip(factors, given, strict=True) if said.scalar.nullable)
        return (counts, *(Term(Decimal(0), (factor,)) for factor in nullable))

    def _counts(self, terms: tuple[Term, ...]) -> int:
        columns = _needed(terms)
        if not columns:
            return self.layout.rows
        if ("counts", columns) not in self.shared:
            self.shared["counts", columns] = place = self._take(1)
            self.layout.counts.append(Counts(place, np.array(columns, np.int64)))
        return self.shared["counts", columns]

    def _exact(self, a: Aggregate, terms: tuple[Term, ...], scale: int) -> int:
        polynomial = _polynomial(terms, scale)
        if ("exact", polynomial) not in self.shared:
            self.shared["exact", polynomial] = place = self._take(3)
            columns = np.array(_needed(terms), np.int64)
            self.layout.exact.append(Exact(place, columns, np.array(polynomial, np.int64), a.name))
        return self.shared["exact", polynomial]

    def _doubles(self, terms: tuple[Term, ...]) -> int:
        if terms not in self.shared:
            self.shared[terms] = place = self._window()
            self.layout.doubles.append(Doubles(place, len(self.layout.spilling), terms))
        return self.shared[terms]

    def _window(self) -> int:
        if self.layout.spills == NONE:
            self.layout.spills = self._new_table(table_of(S_KEY, SPILL_WORDS))
        return self._take(WINDOW_WORDS)

    def _of_bits(self, measure: Measure) -> list[int]:
        (column,) = self._at(measure.values[0])
        many = _BITS[measure.aggregate.type.name]
        if ("bits", column, many) not in self.shared:
            self.shared["bits", column, many] = place = self._take(1 + many)
            self.layout.bits.append(Bits(place, column, many))
        return [_OF_BITS[basic(measure.aggregate.function).reading], self.shared["bits", column, many], many, NONE, 0]

    def _of_product(self, measure: Measure) -> list[int]:
        (name,), a = measure.values, measure.aggregate
        columns, kind = self._at(name), self.types.get(name)
        is_float = kind is not None and kind.is_float
        holds = DOUBLES if is_float else PAIRS if len(columns) > 1 else INTEGERS
        if ("product", columns) not in self.shared:
            self.shared["product", columns] = place = self._take(PRODUCT_WORDS)
            self.layout.products.append(Product(place, np.array([place, holds, *columns], np.int64), a.name))
        reading = r.PRODUCT_AS_DOUBLE if a.type.is_float else r.PRODUCT
        return [reading, self.shared["product", columns], NONE, NONE, 0 if is_float else measure.scale]

    def _in_order(self, measure: Measure) -> list[int]:
        """Return the fields of a measure that is read at a place of an order."""
        a, reading = measure.aggregate, basic(measure.aggregate.function).reading
        at = [self._at(name) for name in measure.values]
        columns = tuple(column for several in at for column in several)
        if reading == "first":
            keys = keys_of(a.detail)
            parts = [[columns.index(c) for c in several] for several in at]
            order = [
                (p, key) for part, key in (*zip(parts[1:], keys[1:], strict=True), (parts[0], keys[0])) for p in part
            ]
            required = tuple(several[0] for several, key in zip(at, keys, strict=True) if key.required)
            values = self._tree(columns, required, order, r.BY_VALUE)
            return [r.LEAST, values.place, values.table, values.tree, 0, 1, 0]
        if reading == "most":
            values = self._tree(columns, columns[:1], [(p, Key()) for p in range(len(columns))], r.BY_COPIES)
            return [r.LEAST, values.place, values.table, values.tree, 0, 1, 0]
        fraction = fraction_of(a.detail)
        order = [(p, Key(fraction.descending)) for p in range(len(columns))]
        values = self._tree(columns, columns[:1], order, r.WITH_COPIES)
        if reading == "at":
            return [r.AT, values.place, values.table, values.tree, 0, 1, fraction.integral]
        kind = self.types[measure.values[0]]
        how, digits = (r.BETWEEN_NUMBERS, 0) if kind.is_integer else _CONT[kind.name]
        return [how, values.place, values.table, values.tree, digits, 1, fraction.integral]

    def _tree(
        self, columns: tuple[int, ...], required: tuple[int, ...], order: list[tuple[int, Key]], how: int
    ) -> Values:
        """Return the values of some columns in an order of these, by their places."""
        known = ("tree", columns, required, tuple(order), how)
        if known not in self.shared:
            self.shared[known] = len(self.layout.values)
            row = table_of(1 + len(columns), 1 + len(columns) + 3)
            row["mult"] = 1 + len(columns)
            table, place = self._new_table(row), self._take(2)
            kinds = [self.types[self.names[c]] for c in columns]
            labelled = [k for k in kinds if needs_labels(k)]
            width = 2 if how == r.WITH_COPIES else 0
            pool = self._pool(width)
            keys = [
                OrderKey(1 + p, key.descending, key.nulls_first, 0 if needs_labels(kinds[p]) else NONE)
                for p, key in order
            ]
            if how == r.BY_COPIES:
                keys.insert(0, OrderKey(len(columns) + 2, descending=True))
            tree = len(self.layout.trees)
            payload, copies = (LANES, len(columns) + 2) if width else (UNIT, 0)
            self.layout.trees.append(TreeDescription(table, payload, copies, width, pool, tuple(keys)))
            self.layout.values.append(
                Values(
                    place, table, np.array(columns, np.int64), tree, labelled[0] if labelled else None,
                    required=np.array(required, np.int64), order=how, pool=pool,
                )
            )  # fmt: skip
        return self.layout.values[self.shared[known]]

    def _pool(self, width: int) -> int:
        """Return the first table of the blocks of trees with a payload of so many lanes."""
        if ("pool", width) not in self.shared:
            self.shared["pool", width] = self.first + len(self.tables)
            self.tables += pools(self.sizes, width)
        return self.shared["pool", width]

    def _of_values(self, measure: Measure) -> list[int]:
        if measure.aggregate.function not in ("min", "max") and basic(measure.aggregate.function).state == "ordered":
            return self._in_order(measure)
        columns = tuple(column for name in measure.values for column in self._at(name))
        if ("values", columns) not in self.shared:
            self.shared["values", columns] = len(self.layout.values)
            self.layout.values.append(self._values(measure.values, columns))
        values = self.layout.values[self.shared["values", columns]]
        reading, kind = basic(measure.aggregate.function).reading, measure.aggregate.type
        if reading in ("sum", "average"):
            return self._of_distinct(measure, values, kind if reading == "sum" else None)
        return [_OF_VALUES[reading], values.place, values.table, values.tree, 0]

    def _of_distinct(self, measure: Measure, values: Values, sum_type: Type | None) -> list[int]:
        """Return the fields of a measure of a sum of distinct values, or of their average."""
        at, kind = self.layout.values.index(values), self.types.get(measure.values[0])
        if kind is not None and kind.is_float:
            if values.doubles == NONE:
                place, number = self._window(), len(self.layout.spilling)
                self.layout.values[at] = values = replace(values, doubles=place, number=number)
            reading = r.AVG_OF_DOUBLES if sum_type is None else r.SUM_OF_DOUBLES
            return [reading, values.doubles, self.layout.spills, NONE, 0]
        if values.exact == NONE:
            self.layout.values[at] = values = replace(values, exact=self._take(3))
        if sum_type is None:
            return [r.AVG, values.exact, NONE, NONE, measure.scale]
        return [r.SUM, values.exact, NONE, NONE, measure.scale - sum_type.scale]

    def _values(self, names: tuple[str, ...], columns: tuple[int, ...]) -> Values:
        row = table_of(1 + len(columns), 1 + len(columns) + 2)
        row["mult"] = 1 + len(columns)
        table, place = self._new_table(row), self._take(2)
        kind = self.types.get(names[0])
        labels = kind if kind is not None and needs_labels(kind) else None
        tree = NONE
        pool = NONE
        if any(m.values == names and m.aggregate.function in ("min", "max") for m in self.groups.measures):
            pool = self._pool(0)
            order = [OrderKey(1 + j, labels=NONE if labels is None else 0) for j in range(len(columns))]
            tree = len(self.layout.trees)
            self.layout.trees.append(TreeDescription(table, UNIT, 0, 0, pool, tuple(order)))
        return Values(place, table, np.array(columns, np.int64), tree, labels, pool=pool)


def _needed(terms: tuple[Term, ...]) -> tuple[int, ...]:
    """Return the columns that must not be NULL; of a pair of codes, one suffices."""
    return tuple(sorted({factor.columns[0] for term in terms for factor in term.factors}))


def _any_float(terms: tuple[Term, ...]) -> bool:
    return any(factor.type.is_float for term in terms for factor in term.factors)


def _scale(term: Term) -> int:
    if not term.coefficient:
        return 0
    exponent = term.coefficient.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent) + sum(factor.type.scale for factor in term.factors)


def _polynomial(terms: tuple[Term, ...], scale: int) -> tuple[int, ...]:
    numbers = [len(terms)]
    for term in terms:
        units = scale - sum(factor.type.scale for factor in term.factors)
        coefficient = int(term.coefficient.scaleb(units))
        numbers += [_signed(coefficient), coefficient >> 64, len(term.factors)]
        for factor in term.factors:
            numbers += [factor.columns[0], factor.columns[1] if len(factor.columns) > 1 else NONE]
    return tuple(numbers)


def _signed(number: int) -> int:
    """Return the lower 64 bits as an int64."""
    lower = number & (2**64 - 1)
    return lower - 2**64 if lower >= 2**63 else lower
