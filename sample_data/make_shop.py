"""Write the shop's sample data: a snapshot, three days of change logs, and the results to expect.

    python sample_data/make_shop.py

The same seed gives the same rows. What it guarantees, and checks with DuckDB by reading the
files back: after each commit, table = (table before + inserts) - deletes with every delete
found, keys are unique, and every order line has an order and a product. The results under
`shop_expected/` are DuckDB's own, computed from the tables after each day.
"""

from __future__ import annotations

import csv
import datetime as dt
import random
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dynq_cli.spec.types import parse_type

HERE = Path(__file__).parent
DATA = HERE / "shop"
EXPECTED = HERE / "shop_expected"
SPEC = yaml.safe_load((HERE.parent / "specs" / "shop.yaml").read_text(encoding="utf-8"))
COLUMNS: dict[str, list[str]] = {name: list(body["columns"]) for name, body in SPEC["relations"].items()}
KEYS: dict[str, list[str]] = {name: body["key"] for name, body in SPEC["relations"].items()}
SQL_TYPES = {
    name: {c: parse_type(t)[0].sql for c, t in body["columns"].items()} for name, body in SPEC["relations"].items()
}
# The one query that the spec writes as a rule, in SQL for DuckDB.
BELOW_LIST_PRICE = """
    SELECT DISTINCT i.order_id, i.line_no, i.product_id, p.name AS product, i.unit_price AS paid, p.list_price AS listed
    FROM items i, products p WHERE i.product_id = p.product_id AND i.unit_price < p.list_price
"""

CUSTOMERS = [
    ("Ada Winter", "Leipzig"),
    ("Bruno Keller", "Leipzig"),
    ("Carla Stein", "Dresden"),
    ("David Vogt", "Dresden"),
    ("Elif Demir", "Halle"),
    ("Frank Otto", None),
    ("Greta Lang", "Halle"),
    ("Hugo Brandt", "Leipzig"),
    ("Ines Roth", "Dresden"),
    ("Jonas Fuchs", None),
]
PRODUCTS = [
    ("Teapot", "kitchen", "34.90"),
    ("Bread knife", "kitchen", "24.50"),
    ("Cast-iron pan", "kitchen", "59.00"),
    ("Desk lamp", "office", "42.00"),
    ("Notebook, A5", "office", "6.80"),
    ("Fountain pen", "office", "29.90"),
    ("Wool blanket", "home", "79.00"),
    ("Candle, set of 4", "home", "12.40"),
]
FIRST_DAY = dt.date(2025, 3, 3)

Row = tuple[Any, ...]
Change = tuple[str, int, Row]  # change type, commit of the day, row


class Shop:
    """The current tables, and the changes of the day that is being written."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tables: dict[str, dict[Row, Row]] = {name: {} for name in COLUMNS}
        self.log: dict[str, list[Change]] = {name: [] for name in COLUMNS}
        self.commit = 1
        self.today = FIRST_DAY

    def next_day(self) -> None:
        self.log = {name: [] for name in COLUMNS}
        self.commit = 1
        self.today += dt.timedelta(days=1)

    def key(self, name: str, row: Row) -> Row:
        return tuple(row[COLUMNS[name].index(c)] for c in KEYS[name])

    def insert(self, name: str, *row: Any) -> None:
        require(self.key(name, row) not in self.tables[name], f"{name}: {row} is there already")
        self.tables[name][self.key(name, row)] = row
        self.log[name].append(("insert", self.commit, row))

    def delete(self, name: str, *key: Any, by_key: bool = False) -> None:
        row = self.tables[name].pop(key)
        if by_key:
            row = tuple(v if c in KEYS[name] else None for c, v in zip(COLUMNS[name], row, strict=True))
        self.log[name].append(("delete", self.commit, row))

    def update(self, name: str, *key: Any, preimage: bool = True, **values: Any) -> None:
        old = self.tables[name][key]
        new = tuple(values.get(c, v) for c, v in zip(COLUMNS[name], old, strict=True))
        require(new != old, f"{name}: {old} would not change")
        if preimage:
            self.log[name].append(("update_preimage", self.commit, old))
        self.log[name].append(("update_postimage", self.commit, new))
        self.tables[name][key] = new

    def pick(self, number: int) -> list[int]:
        return self.random.sample(sorted(key[0] for key in self.tables["products"]), number)

    def place_order(self, customer: int | None, day: dt.date, products: list[int]) -> int:
        order = max((k[0] for k in self.tables["orders"]), default=1000) + 1
        self.insert("orders", order, customer, day, "open", None)
        for line, product in enumerate(products, 1):
            price = self.tables["products"][(product,)][3]
            if self.random.random() < 0.25:
                price = (price * Decimal("0.9")).quantize(Decimal("0.01"))
            self.insert("items", order, line, product, self.random.choice((1, 1, 1, 2, 3)), price, None)
        return order

    def ship(self, order: int) -> None:
        self.update("orders", order, status="shipped", shipped_on=self.today)

    def cancel(self, order: int) -> None:
        for key in [k for k in self.tables["items"] if k[0] == order]:
            self.delete("items", *key)
        self.delete("orders", order)

    def open_orders(self) -> list[int]:
        return [k[0] for k, row in self.tables["orders"].items() if row[3] == "open"]


def days(shop: Shop) -> Iterator[int]:
    """Play the days; after each the shop's log holds what to write."""
    for number, (name, city) in enumerate(CUSTOMERS, 1):
        email = None if number % 4 == 0 else f"{name.split()[0].lower()}@example.org"
        shop.insert("customers", number, name, city, email, dt.date(2024, number, 15))
    for number, (name, category, price) in enumerate(PRODUCTS, 1):
        shop.insert("products", number, name, category, Decimal(price))
    for number in range(20):
        placed = FIRST_DAY - dt.timedelta(days=10 - number // 2)
        shop.place_order(None if number % 9 == 8 else number * 3 % 10 + 1, placed, shop.pick(1 + number % 3))
    for order in shop.open_orders()[:14]:
        row = shop.tables["orders"][(order,)]
        shop.tables["orders"][(order,)] = (*row[:3], "shipped", row[2] + dt.timedelta(days=2))
    shop.tables["items"][(1003, 2)] = (*shop.tables["items"][(1003, 2)][:5], FIRST_DAY - dt.timedelta(days=2))
    yield 0

    # New orders, shipments, a return, a cancelled order.
    shop.next_day()
    shop.insert("customers", 11, "Karim Nasser", None, "karim@example.org", shop.today)
    for order in shop.open_orders()[:3]:
        shop.ship(order)
    shop.place_order(11, shop.today, shop.pick(3))
    shop.place_order(1, shop.today, [7, 5])
    shop.update("items", 1006, 1, returned_on=shop.today)
    shop.cancel(shop.open_orders()[0])
    yield 1

    # A dearer product and a lost address without preimages, a move, a line taken back by its key alone.
    shop.next_day()
    shop.update("products", 5, preimage=False, list_price=Decimal("7.20"))
    shop.update("customers", 2, preimage=False, email=None)
    shop.update("customers", 11, city="Halle")
    shop.insert("products", 9, "Garden gloves", "garden", Decimal("18.00"))
    shop.place_order(None, shop.today, shop.pick(2))
    shop.delete("items", 1021, 3, by_key=True)
    shop.update("items", 1003, 2, returned_on=None)
    yield 2

    # Three commits: shipments and a cancellation; an order placed and withdrawn at once;
    # a customer who asks to be forgotten, whose orders stay as a guest's.
    shop.next_day()
    for order in shop.open_orders()[:2]:
        shop.ship(order)
    shop.cancel(1022)
    shop.commit = 2
    shop.cancel(shop.place_order(7, shop.today, shop.pick(2)))
    shop.place_order(5, shop.today, [9])
    shop.commit = 3
    for key, row in list(shop.tables["orders"].items()):
        if row[1] == 4:
            shop.update("orders", *key, customer_id=None)
    shop.delete("customers", 4)
    yield 3


def write_csv(path: Path, header: list[str], rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def write_parquet(path: Path, name: str, changes: list[Change], day: dt.date) -> None:
    """Columns as Spark's change feed writes them: the row, then type, version and time of the commit."""
    rows = [row for _, _, row in changes]
    columns = {c: [row[i] for row in rows] for i, c in enumerate(COLUMNS[name])}
    arrow = {"BIGINT": pa.int64(), "INTEGER": pa.int32(), "VARCHAR": pa.string(), "DATE": pa.date32()}
    fields = [(c, arrow.get(t, pa.decimal128(10, 2))) for c, t in SQL_TYPES[name].items()]
    noon = dt.datetime.combine(day, dt.time(12), dt.UTC)
    columns["_change_type"] = [change for change, _, _ in changes]
    columns["_commit_version"] = [commit for _, commit, _ in changes]
    columns["_commit_timestamp"] = [noon + dt.timedelta(hours=commit) for _, commit, _ in changes]
    fields += [("_change_type", pa.string()), ("_commit_version", pa.int64())]
    fields += [("_commit_timestamp", pa.timestamp("us", tz="UTC"))]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path)


def write_day(shop: Shop, day: int) -> list[Path]:
    folder = DATA / f"day-{day}"
    folder.mkdir(parents=True)
    paths = []
    for name, changes in sorted(shop.log.items()):
        if not changes:
            continue
        paths.append(folder / (f"{name}.csv" if day == 0 else f"{name}.day-{day}.{'parquet' if day == 3 else 'csv'}"))
        if day == 0:
            write_csv(paths[-1], COLUMNS[name], list(shop.tables[name].values()))
        elif day == 3:
            write_parquet(paths[-1], name, changes, shop.today)
        else:
            write_csv(paths[-1], [*COLUMNS[name], "_change_type"], [(*row, change) for change, _, row in changes])
    return paths


def replay(db: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Apply one written file to DuckDB's tables, commit by commit, and check each commit."""
    name = path.name.split(".")[0]
    columns, key = ", ".join(COLUMNS[name]), ", ".join(KEYS[name])
    source = f"read_parquet('{path}')" if path.suffix == ".parquet" else f"read_csv('{path}', all_varchar=true)"
    present = {row[0] for row in db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    change = "_change_type" if "_change_type" in present else "'insert'"
    commit = "_commit_version" if "_commit_version" in present else "1"
    typed = ", ".join(f"CAST({c} AS {t}) AS {c}" for c, t in SQL_TYPES[name].items())
    db.execute(f"CREATE OR REPLACE TEMP TABLE log AS SELECT {typed}, {change} AS op, {commit} AS commit FROM {source}")
    others = [c for c in COLUMNS[name] if c not in KEYS[name]]
    key_only = " AND ".join(f"{c} IS NULL" for c in others)
    for (number,) in db.execute("SELECT DISTINCT commit FROM log ORDER BY 1").fetchall():
        batch = f"(SELECT * FROM log WHERE commit = {number})"
        unknown = f"{key_only} AND ({key}) NOT IN (SELECT ({key}) FROM {name})"
        gone = scalar(db, f"SELECT COUNT(*) FROM {batch} WHERE op = 'delete' AND {unknown}")
        require(gone == 0, f"{path}: a delete of a missing key")
        db.execute(f"""
            CREATE OR REPLACE TEMP TABLE plus AS
            SELECT {columns} FROM {batch} WHERE op IN ('insert', 'update_postimage');
            CREATE OR REPLACE TEMP TABLE minus AS
            SELECT {columns} FROM {batch} WHERE op IN ('delete', 'update_preimage') AND NOT ({key_only})
            UNION ALL
            SELECT {columns} FROM {name} WHERE ({key}) IN (
                SELECT ({key}) FROM {batch} AS b WHERE (op = 'delete' AND {key_only}) OR (
                    op = 'update_postimage'
                    AND ({key}) NOT IN (SELECT ({key}) FROM {batch} WHERE op = 'update_preimage')));
            CREATE OR REPLACE TEMP TABLE after AS
            (SELECT * FROM {name} UNION ALL SELECT * FROM plus) EXCEPT ALL SELECT * FROM minus;
        """)
        rows = {t: scalar(db, f"SELECT COUNT(*) FROM {t}") for t in (name, "plus", "minus", "after")}
        require(rows["after"] == rows[name] + rows["plus"] - rows["minus"], f"{path}: a delete of a missing row")
        db.execute(f"DELETE FROM {name}; INSERT INTO {name} SELECT * FROM after")
        keys = scalar(db, f"SELECT COUNT(DISTINCT ({key})) FROM {name}")
        require(keys == rows["after"], f"{path}: duplicate key")


def scalar(db: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(db.execute(sql).fetchall()[0][0])


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


def check_tables(db: duckdb.DuckDBPyConnection, shop: Shop) -> None:
    for name, table in shop.tables.items():
        require(set(db.execute(f"SELECT * FROM {name}").fetchall()) == set(table.values()), f"{name} differs")
    for child, column, parent in (
        ("items", "order_id", "orders"),
        ("items", "product_id", "products"),
        ("orders", "customer_id", "customers"),
    ):
        lost = f"SELECT COUNT(*) FROM {child} WHERE {column} NOT IN (SELECT {column} FROM {parent})"
        require(scalar(db, lost) == 0, f"{child}.{column} points nowhere")


def write_expected(db: duckdb.DuckDBPyConnection, day: int) -> None:
    folder = EXPECTED / f"day-{day}"
    folder.mkdir(parents=True)
    for name, query in SPEC["queries"].items():
        order = ", ".join(query.get("order_by", ["ALL"]))
        result = db.execute(f"SELECT * FROM ({query.get('sql', BELOW_LIST_PRICE)}) ORDER BY {order}")
        header = [column[0] for column in result.description or ()]
        write_csv(folder / f"{name}.csv", header, result.fetchall())


def main() -> None:
    for folder in (DATA, EXPECTED):
        shutil.rmtree(folder, ignore_errors=True)
    shop = Shop(seed=7)
    db = duckdb.connect()
    for name, types in SQL_TYPES.items():
        db.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, t in types.items())})")
    for day in days(shop):
        for path in write_day(shop, day):
            replay(db, path)
        check_tables(db, shop)
        write_expected(db, day)


if __name__ == "__main__":
    main()
