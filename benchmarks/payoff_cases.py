"""What group `payoff` measures: four queries over a shop, their tables, and what is asked of their results.

This module stays small on purpose, see processes.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COMMITS = (1, 1_000, 100_000)
COUNT, BY_HAND, ROWS, DELTA = "count", "count, rewritten by hand", "result", "delta"
MEMORY_LIMIT = "6 GB"  # of DuckDB; what does not fit is written to disk

TYPES = {"city": "string", "state": "string"}  # all other columns are int64
DUCKDB_TYPES = {"string": "VARCHAR", "int64": "BIGINT"}


@dataclass(frozen=True)
class Case:
    """A query over tables, each with its columns, the key first."""

    name: str
    tables: Mapping[str, Sequence[str]]
    sql: str
    asks: Sequence[str]
    result_per_row: float = 0.01
    counted_by_hand: str = ""  # what somebody who knows the data writes for a count of the rows

    def spec(self) -> str:
        """The spec of dynq."""
        lines = ["version: 1", "relations:"]
        for table, columns in self.tables.items():
            typed = ", ".join(f"{column}: {type_of(column)}" for column in columns)
            lines.append(f"  {table}: {{columns: {{{typed}}}, key: [{columns[0]}]}}")
        return "\n".join([*lines, "queries:", "  q:", f'    sql: "{self.sql}"', ""])


def type_of(column: str) -> str:
    return TYPES.get(column, "int64")


SHOP = {
    "customers": ("customer_id", "city"),
    "orders": ("order_id", "customer_id", "state"),
    "lines": ("line_id", "order_id", "quantity", "cents"),
}
# The part of all base rows that each table has, by its name.
SHARES = {"customers": 0.02, "orders": 0.18, "reviews": 0.05}

CASES = {
    case.name: case
    for case in (
        Case(
            "join, few results",
            SHOP,
            "SELECT l.line_id, o.order_id, c.customer_id, c.city, l.quantity, l.cents FROM lines l"
            " JOIN orders o ON l.order_id = o.order_id JOIN customers c ON o.customer_id = c.customer_id"
            " WHERE o.state = 'open' AND l.quantity > 95",
            (ROWS, DELTA),
        ),
        Case(
            "join, many results",
            {"lines": ("line_id", "product_id", "cents"), "reviews": ("review_id", "product_id", "stars")},
            "SELECT l.product_id, l.line_id, l.cents, r.review_id, r.stars FROM lines l"
            " JOIN reviews r ON l.product_id = r.product_id",
            (COUNT, BY_HAND, DELTA),
            result_per_row=19,
            counted_by_hand="SELECT sum(l.n * r.n) FROM (SELECT product_id, count(*) AS n FROM lines GROUP BY ALL) l"
            " JOIN (SELECT product_id, count(*) AS n FROM reviews GROUP BY ALL) r USING (product_id)",
        ),
        Case(
            "GROUP BY over a join",
            SHOP,
            "SELECT c.city, o.state, COUNT(*) AS n, SUM(l.quantity) AS quantity, SUM(l.cents) AS cents FROM lines l"
            " JOIN orders o ON l.order_id = o.order_id JOIN customers c ON o.customer_id = c.customer_id"
            " GROUP BY c.city, o.state",
            (ROWS,),
        ),
        Case(
            "GROUP BY, one table",
            {"lines": ("line_id", "product_id", "quantity", "cents")},
            "SELECT l.product_id, COUNT(*) AS n, SUM(l.quantity) AS quantity, SUM(l.cents) AS cents FROM lines l"
            " GROUP BY l.product_id",
            (ROWS,),
        ),
    )
}

# With ten times `--rows` everything takes minutes: what shows where that leads.
LARGEST = {"GROUP BY over a join": (ROWS,), "join, many results": (COUNT,)}
