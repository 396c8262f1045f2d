"""Write the tables of a case of `payoff`, and commits of changes to them, as Parquet.

    python benchmarks/payoff_data.py CASE DIR ROWS SIZE...

`DIR/spec.yaml`; `DIR/base/TABLE.parquet`, together ROWS rows; and for every SIZE one commit, in this order:
`DIR/commits/NUMBER/TABLE.NUMBER.parquet` with SIZE changes and `_change_type`. Of ten changes, nine insert or delete
lines, as many of each, and the tenth concerns the other table that changes: an order that goes to another state, or a
review that comes or goes. Customers stay. Seeded.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from payoff_cases import CASES, SHARES, Case

ROWS_PER_PRODUCT = 400
CITIES, STATES, OPEN, SHIPPED = 100, ("open", "shipped", "returned"), 0.02, 0.90

Column = NDArray[np.int64]


class Table:
    """The rows that are in a table now. Strings are codes until they are written."""

    def __init__(self, case: Case, name: str, sizes: dict[str, int], rows: int, rng: np.random.Generator) -> None:
        self.name, self.names, self.sizes, self.rows, self.rng = name, list(case.tables[name]), sizes, rows, rng
        self.next_key = 0
        self.columns = self.fresh(sizes[name])
        if "order_id" in self.names[1:]:
            self.columns[self.names.index("order_id")].sort()  # the lines of an order come together

    def fresh(self, many: int) -> list[Column]:
        """Rows with keys that were never used."""
        first, self.next_key = self.next_key, self.next_key + many
        rest = [self.drawn(column, many) for column in self.names[1:]]
        return [np.arange(first, first + many), *rest]

    def drawn(self, column: str, many: int) -> Column:
        if column == "state":
            return np.searchsorted([OPEN, OPEN + SHIPPED], self.rng.random(many)).astype(np.int64)
        many_values = {
            "customer_id": self.sizes.get("customers", 0),
            "order_id": self.sizes.get("orders", 0),
            "product_id": max(1, self.rows // ROWS_PER_PRODUCT),
            "city": CITIES,
            "quantity": 100,
            "cents": 100_000,
            "stars": 5,
        }
        return self.rng.integers(0, many_values[column], many) + (column == "quantity")

    def arrow(self, columns: list[Column], change: list[tuple[str, int]] | None = None) -> pa.Table:
        made = {name: self.texts(name, column) for name, column in zip(self.names, columns, strict=True)}
        if change is not None:
            kinds = np.repeat([kind for kind, _ in change], [many for _, many in change])
            made = {"_change_type": pa.array(kinds), **made}
        return pa.table(made)

    def texts(self, name: str, column: Column) -> pa.Array:
        if name == "state":
            return pa.array(np.array(STATES, dtype=object)[column], pa.string())
        if name == "city":
            return pa.array([f"city {code}" for code in column.tolist()], pa.string())
        return pa.array(column)

    def come_and_go(self, inserts: int, deletes: int) -> pa.Table:
        """Delete some rows, each equally likely, and insert fresh ones."""
        gone = self.rng.choice(len(self.columns[0]), deletes, replace=False)
        old = [column[gone] for column in self.columns]
        new = self.fresh(inserts)
        self.columns = [
            np.concatenate([np.delete(column, gone), fresh]) for column, fresh in zip(self.columns, new, strict=True)
        ]
        both = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
        return self.arrow(both, [("delete", deletes), ("insert", inserts)])

    def move_on(self, many: int) -> pa.Table:
        """Orders that go to another state."""
        which = self.rng.choice(len(self.columns[0]), min(many, len(self.columns[0])), replace=False)
        state = self.names.index("state")
        old = [column[which] for column in self.columns]
        new = list(old)
        new[state] = (old[state] + self.rng.integers(1, len(STATES), len(which))) % len(STATES)
        self.columns[state][which] = new[state]
        both = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
        return self.arrow(both, [("update_preimage", len(which)), ("update_postimage", len(which))])


def commit(tables: dict[str, Table], size: int, number: int) -> dict[str, pa.Table]:
    """Changes of one commit, by table."""
    others = size // 10 if len(tables) > 1 else 0
    lines = size - others
    # A commit of one change is by turns an insert and a delete.
    deletes = (lines + number % 2) // 2
    made = {"lines": tables["lines"].come_and_go(lines - deletes, deletes)}
    if others and "orders" in tables:
        made["orders"] = tables["orders"].move_on(others)
    if others and "reviews" in tables:
        made["reviews"] = tables["reviews"].come_and_go(others - others // 2, others // 2)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("sizes", type=int, nargs="+")
    given = parser.parse_args()
    case, rng = CASES[given.case], np.random.default_rng(17)
    sizes = {name: int(given.rows * SHARES[name]) for name in case.tables if name != "lines"}
    sizes["lines"] = given.rows - sum(sizes.values())
    tables = {name: Table(case, name, sizes, given.rows, rng) for name in case.tables}
    base = given.folder / "base"
    base.mkdir(parents=True)
    (given.folder / "spec.yaml").write_text(case.spec(), "utf-8")
    for name, table in tables.items():
        pq.write_table(table.arrow(table.columns), base / f"{name}.parquet")
    for number, size in enumerate(given.sizes):
        folder = given.folder / "commits" / f"{number:05d}"
        folder.mkdir(parents=True)
        for name, changes in commit(tables, size, number).items():
            pq.write_table(changes, folder / f"{name}.{number:05d}.parquet")
    print(json.dumps({"base_bytes": sum(path.stat().st_size for path in base.iterdir())}))


if __name__ == "__main__":
    main()
