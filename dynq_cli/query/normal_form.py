"""The normal form of queries: SQL, rules and formulas all become this.

A conjunctive query is

    head, aggregates  ←  atom₁ ⋈ … ⋈ atomₙ  where  comparisons

An atom is a relation (or a view) after its local filters, with some of its columns, or scalars
computed from them, bound to variables. Two atoms join where they bind the same variable.
What remains between atoms is a comparison `left op right + offset`. So:

- equal columns are one variable, and a variable is bound at most once in an atom;
- a comparison whose two variables are bound in one atom is a filter of that atom;
- a constant is a filter; a variable that equals a constant is gone;
- a NULL-able column that is joined or compared has the filter `… IS NOT NULL`.

Everything here is frozen and compares by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Literal

from dynq_cli.records import record
from dynq_cli.spec.model import Column, Keep, Semantics
from dynq_cli.spec.types import Type

MOST_SHOWN = 5

AtomMode = Literal["join", "semi", "anti"]
Temporal = Literal["", "date", "timestamp"]
CompareOp = Literal["<", "<=", "!="]
ColumnKind = Literal["variable", "aggregate", "expression", "pair"]
Part = Literal["", "high", "low"]


@record(frozen=True)
class Scalar:
    """An immutable SQL expression (DuckDB's dialect) over named columns."""

    sql: str
    type: Type
    nullable: bool
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self.sql


@record(frozen=True)
class Variable:
    name: str
    type: Type
    nullable: bool = False


@record(frozen=True)
class Binding:
    """A variable and its scalar; of a decimal of more than 18 digits it may be one `part` of two, an int64."""

    variable: str
    scalar: Scalar
    part: Part = ""


@record(frozen=True)
class Atom:
    """A source after its filters; `mode` says how it takes part.

    `join` multiplies by the number of matching rows, `semi` by 1 if there is one (EXISTS, IN),
    `anti` by 1 if there is none (NOT EXISTS, NOT IN). `null_aware` names the variable of a NOT IN
    whose two sides may be NULL, where SQL's rules decide.
    """

    alias: str
    source: str
    bindings: tuple[Binding, ...]
    filters: tuple[Scalar, ...] = ()
    mode: AtomMode = "join"
    null_aware: str | None = None

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(b.variable for b in self.bindings)

    def binding(self, variable: str) -> Binding | None:
        return next((b for b in self.bindings if b.variable == variable), None)

    def _shown(self, variables: list[str]) -> str:
        name = self.source if self.alias == self.source else f"{self.source} {self.alias}"
        said = {"join": "", "semi": "exists ", "anti": "not exists "}[self.mode]
        return f"{said}{name}({', '.join(variables)})"

    def __str__(self) -> str:
        return self._shown([b.variable for b in self.bindings])

    @property
    def brief(self) -> str:
        """The atom with its first variables only, to be recognised by."""
        names = [b.variable for b in self.bindings]
        return self._shown(names if len(names) <= MOST_SHOWN else [*names[: MOST_SHOWN - 1], "…"])


@record(frozen=True)
class Comparison:
    """`left op right + offset`; the unit of the offset is the type's: 1, a day, a microsecond."""

    left: str
    op: CompareOp
    right: str
    offset: Decimal = Decimal(0)
    temporal: Temporal = ""

    @property
    def variables(self) -> frozenset[str]:
        return frozenset((self.left, self.right))

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}{format_offset(self.offset, self.temporal)}"


def format_offset(offset: Decimal, temporal: str) -> str:
    """How an offset is shown: ` + 3`, ` - interval '1 hour'`, or nothing for 0."""
    if not offset:
        return ""
    sign, size = ("-", -offset) if offset < 0 else ("+", offset)
    if not temporal:
        return f" {sign} {size.normalize():f}"
    size *= 86_400_000_000 if temporal == "date" else 1
    for unit, length in (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 10**6)):
        if size % length == 0:
            many = int(size // length)
            return f" {sign} interval '{many} {unit}{'s' if many != 1 else ''}'"
    return f" {sign} interval '{int(size)} microseconds'"


@record(frozen=True)
class Factor:
    """One atom's part of a monomial."""

    atom: int
    scalar: Scalar


@record(frozen=True)
class Monomial:
    """coefficient × Π factors, at most one factor per atom."""

    coefficient: Decimal
    factors: tuple[Factor, ...]


@record(frozen=True)
class Aggregate:
    """`function` names a basic aggregate (`query.aggregates`). Those that read sums are of Σ monomials, `count` of
    rows where every factor is not NULL (all rows without monomials). Those that read values are of
    `variables`; `detail` is what else the aggregate has to be told (`query.aggregates.ordered`)."""

    name: str
    function: str
    type: Type
    nullable: bool
    monomials: tuple[Monomial, ...] = ()
    variables: tuple[str, ...] = ()
    detail: str = ""


@record(frozen=True)
class OutputColumn:
    """A column of the result: a head variable, an aggregate, or a scalar over these by name.

    A `pair` is a decimal of more than 18 digits whose two parts are head variables (plans have it, queries do not).
    """

    name: str
    type: Type
    nullable: bool
    kind: ColumnKind
    source: str


@record(frozen=True)
class VariableOrder:
    """`of`: a head variable; or, of a grouped query, the output column of that name, which groups have a value of.

    NULL is the least value, first if the order ascends and last if it descends, unless `nulls_first` says otherwise.
    """

    variable: str
    descending: bool = False
    of: Literal["variable", "column"] = "variable"
    nulls_first: bool | None = None

    def __str__(self) -> str:
        nulls = "" if self.nulls_first is None else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.variable}{' desc' * self.descending}{nulls}"


def without_repetition(order: Iterable[VariableOrder | None]) -> tuple[VariableOrder, ...]:
    """An order without what repeats: the first mention of a variable or column decides."""
    found: dict[tuple[str, str], VariableOrder] = {}
    for entry in order:
        if entry is not None:
            found.setdefault((entry.of, entry.variable), entry)
    return tuple(found.values())


@record(frozen=True)
class ColumnOrder:
    """A key of an order of rows, by a column."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.column}{' desc' * self.descending}{' nulls first' * self.nulls_first}"


@record(frozen=True)
class WindowFunction:
    """A column that is computed from the rows of a partition.

    `sql` is DuckDB's, over the columns, `"_partition"`, which tells partitions apart, and `"_place"`, which numbers the
    rows of each. It looks at no more than `reach` rows on either side of its own, or at any number of rows (None).
    """

    name: str
    sql: str
    type: Type
    nullable: bool
    reach: int | None = None


@record(frozen=True)
class Window:
    """What a view makes of its query's rows by their places.

    Rows that agree on the columns `partition` are in the order of `order`, ties in that of all columns, ascending, NULL
    last. Without `functions`, the view has `limit` rows of each partition behind the first `offset`, counting copies;
    with them all rows, and the functions' columns.
    """

    partition: tuple[str, ...]
    order: tuple[ColumnOrder, ...]
    limit: int | None = None
    offset: int = 0
    functions: tuple[WindowFunction, ...] = ()


@record(frozen=True)
class View:
    """A subquery that is kept as a view of its own; atoms name it as their source.

    A view that an outer join, a subquery or a condition over several tables needs says so in `outer_join`; it may have
    views that stand before it as sources. `key` are columns that tell its rows apart, where the query does not say so.
    A query of the spec has its name in `named`.
    """

    name: str
    columns: tuple[Column, ...]
    query: Query
    outer_join: str = ""
    key: tuple[str, ...] = ()
    window: Window | None = None
    named: str = ""


@record(frozen=True)
class ConjunctiveQuery:
    """`grouped`: one row per binding of the head, without a multiplicity. `one_row`: aggregates
    without GROUP BY, which give one row also over nothing. `keep`: the reads that it is kept for."""

    name: str
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...]
    variables: tuple[Variable, ...]
    head: tuple[str, ...]
    columns: tuple[OutputColumn, ...]
    semantics: Semantics
    grouped: bool = False
    one_row: bool = False
    aggregates: tuple[Aggregate, ...] = ()
    having: Scalar | None = None
    order: tuple[VariableOrder, ...] = ()
    views: tuple[View, ...] = ()
    simplifications: tuple[str, ...] = ()
    max_view_rows: int | None = None
    keep: Keep = "all"
    epsilon: Decimal | None = None

    def variable(self, name: str) -> Variable:
        return next(v for v in self.variables if v.name == name)

    @property
    def is_boolean(self) -> bool:
        return not self.columns

    def __str__(self) -> str:
        inside = [*self.head, *(f"{a.name} = {a.function}({', '.join(a.variables) or '…'})" for a in self.aggregates)]
        body = [*map(str, self.atoms), *map(str, self.comparisons)]
        return f"{self.name}({', '.join(inside)}) :- {', '.join(body)}"


@record(frozen=True)
class UnionQuery:
    """Union of queries with the same column types; distinct unless the semantics is `bag`."""

    name: str
    members: tuple[Query, ...]
    columns: tuple[OutputColumn, ...]
    semantics: Semantics
    order: tuple[VariableOrder, ...] = ()
    max_view_rows: int | None = None
    keep: Keep = "all"
    epsilon: Decimal | None = None

    def __str__(self) -> str:
        return f"{self.name} = " + (" ∪ " if self.semantics == "set" else " ⊎ ").join(m.name for m in self.members)


Query = ConjunctiveQuery | UnionQuery


def walk(query: Query) -> Iterator[ConjunctiveQuery]:
    """Every conjunctive query in `query`: members of unions and views, innermost first."""
    if isinstance(query, UnionQuery):
        for member in query.members:
            yield from walk(member)
        return
    for view in query.views:
        yield from walk(view.query)
    yield query
