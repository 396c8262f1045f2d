"""The definition of an aggregate: everything that the layers ask about it.

A `Basic` aggregate is a reading of one accumulator of a group:

    sums       Σ over the group's rows; COUNT, SUM and AVG read it
    ordered    an order-statistic tree of the distinct values; MIN and MAX read its ends, quantiles a place in it
    values     the distinct values with their copies; COUNT(DISTINCT) reads how many there are, SUM(DISTINCT) their sum
    product    the product of the numbers that are not 0, and how many are; PRODUCT reads it
    bits       for each bit of an integer, the rows that have it; BIT_AND, BIT_OR and BIT_XOR read it

A `Recomputed` aggregate is none of these: SQL makes it a window function over the rows of a group.

An `Additive` aggregate is an expression over sums and needs nothing below the front ends: they replace it by the basic
aggregates that it names. So it is pushed below joins, stored, and read as those are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from dynq_cli.records import record
from dynq_cli.spec.types import Type

# A decimal of more digits has no code of its own.
NARROW_DIGITS = 18
State = Literal["sums", "ordered", "values", "bits", "product"]
Reading = Literal[
    "count", "sum", "average", "least", "greatest", "at", "between", "most", "first", "all", "any", "odd", "product"
]
# The arguments that an aggregate takes: any type, numbers, numbers that are no floats, integers, conditions, or what
# has a value between any two: numbers of at most 18 digits, and times.
Takes = Literal["anything", "numbers", "exact numbers", "integers", "conditions", "distances"]


@record(frozen=True)
class Basic:
    """An aggregate of one argument; COUNT takes none as well, and COUNT(DISTINCT) several.

    `name` is its name in rules, in normal forms and in stored plans; `shown` is how messages and DuckDB write it.
    `of_distinct` names the aggregate that `NAME(DISTINCT x)` is, if it is one. Of no rows a count is 0 and any other
    reading NULL. `of_copies` says that a value counts as often as it is there, of an aggregate that reads no sums: the
    rows cannot be added up before they are joined. With `is_choice`, DuckDB takes any of several values that are
    as good, where one of them is fixed here. `is_duckdbs` says that DuckDB has an aggregate of that name.
    """

    name: str
    state: State
    reading: Reading
    takes: Takes
    type_of: Callable[[Type], Type]
    shown: str
    of_distinct: str = ""
    synonyms: tuple[str, ...] = ()
    of_copies: bool = False
    is_choice: bool = False
    is_duckdbs: bool = True

    @property
    def is_written(self) -> bool:
        """Whether the name itself may be written in a query."""
        return "DISTINCT" not in self.shown

    def sql(self, argument: str) -> str:
        """The call in DuckDB's SQL.

        >>> from dynq_cli.query.aggregates import basic
        >>> basic("count_distinct").sql("x")
        'COUNT(DISTINCT x)'
        """
        return self.shown.replace("…", argument)


@record(frozen=True)
class Additive:
    """`result` over `sums`, each a product of factors over the rows where no argument is NULL.

    Factors are SQL over one of the `arguments`, which stands in braces: `{x}`, `abs({x})`. The empty product counts
    the rows; the other sums are NULL where there are no rows. `result` is SQL over the sums, in braces too, or a
    function from the types of the arguments to it. DuckDB evaluates it once per changed group. Sums of integers and
    decimals are exact and have 38 digits; those of floats are exact and rounded once.

    `is_duckdbs` says that DuckDB has an aggregate of that name which gives the same values; where `cancels`, it may
    lose all digits of a value that is nearly 0. `present` is SQL over an argument, `{}`, that is NULL where the row is
    left out, and a number elsewhere.
    """

    name: str
    arguments: tuple[str, ...]
    sums: Mapping[str, tuple[str, ...]]
    result: str | Callable[[Mapping[str, Type]], str]
    takes: Takes = "numbers"
    synonyms: tuple[str, ...] = ()
    is_duckdbs: bool = False
    cancels: bool = False
    present: str = "{}"

    @property
    def shown(self) -> str:
        return f"{self.name.upper()}({', '.join(self.arguments)})"

    def result_over(self, types: Mapping[str, Type], names: Mapping[str, str]) -> str:
        """The result as SQL over the names that sums have; `types` are those of the arguments."""
        template = self.result if isinstance(self.result, str) else self.result(types)
        return template.format_map(names)


@record(frozen=True)
class Recomputed:
    """An aggregate of DuckDB's that is computed again from all rows of a group that changes.

    `of_nothing` is its value over no rows, in SQL.
    """

    name: str
    arguments: tuple[str, ...]
    of_nothing: str = "NULL"
    synonyms: tuple[str, ...] = ()

    is_written = True
    is_duckdbs = True
    # DuckDB rounds at every row, in an order of its own.
    is_choice = True


Definition = Basic | Additive | Recomputed


def objection(definition: Basic | Additive, kind: Type) -> tuple[str, str] | None:
    """Why an aggregate does not take an argument of a type, and the hint; None if it does."""
    if _is_taken(definition.takes, kind):
        return None
    name = definition.name.removesuffix("_distinct").upper()
    message = f"{name} of {kind}"
    if definition.takes == "conditions":
        return message, f"{name} takes conditions; compare the argument with something"
    if definition.takes == "distances":
        hint = "use QUANTILE_DISC, which gives one of the values, or cast the argument to a number"
        return f"nothing lies between two values of {kind}", hint
    if definition.takes == "integers":
        return message, f"{name} takes integers; cast the argument, as in CAST(x AS BIGINT)"
    if kind.is_float:
        return message, "sums of products of floats would cancel; cast the argument, as in CAST(x AS DECIMAL(18, 6))"
    return message, f"{name} takes numbers; cast the argument"


def _is_taken(takes: Takes, kind: Type) -> bool:
    if takes == "anything":
        return True
    if takes == "conditions":
        return kind.name == "bool"
    if takes == "integers":
        return kind.is_integer
    if takes == "distances":
        is_wide = kind.name == "decimal" and kind.precision > NARROW_DIGITS
        return (kind.is_numeric and not is_wide) or kind.name in ("date", "time", "timestamp")
    return kind.is_numeric and (takes == "numbers" or not kind.is_float)
