"""The whole path with nothing in between left out: tables of PostgreSQL, `extract`, `apply`, `count`, `enum`, `diff`.

What the commands print is compared with what PostgreSQL itself answers to the same SQL.
"""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynq_cli.cli.app import main
from tests.conftest import ROOT
from tests.spark.conftest import CONF
from tests.spark.postgres import PASSWORD, Postgres
from tests.spark.snapshots import held
from tests.spark.test_killed_jobs import is_alive, wait_for

SQL = (
    "SELECT customers.id AS customer, customers.region, orders.id, orders.total, orders.placed"
    " FROM customers JOIN orders ON customers.id = orders.customer WHERE orders.total > 5"
)
SPEC = f"""\
version: 1
relations:
  customers: {{columns: {{id: int32, region: string?}}, key: [id]}}
  orders: {{columns: {{id: int64, customer: int32, total: 'decimal(9,2)', placed: date?}}, key: [id]}}
queries: {{sold: {{sql: "{SQL}"}}}}
"""
TABLES = """
DROP TABLE IF EXISTS customers, orders, customers_before, sold_before;
CREATE TABLE customers (id int PRIMARY KEY, region text, comment text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer int, total numeric(9,2), placed date, deleted boolean,
                     changed timestamptz DEFAULT clock_timestamp());
INSERT INTO customers SELECT i, (ARRAY['north', 'south', NULL])[1 + i % 3], 'c' FROM generate_series(1, 40) i;
INSERT INTO orders SELECT i, 1 + i % 50, i % 17, date '2026-01-01' + (i % 9)::int, false FROM generate_series(1, 300) i;
"""
CHANGES = """
UPDATE orders SET total = total + 3.25, changed = clock_timestamp() WHERE id % 7 = 0;
UPDATE orders SET deleted = true, changed = clock_timestamp() WHERE id % 11 = 0;
INSERT INTO orders (id, customer, total) SELECT i, i % 45, 10 FROM generate_series(1001, 1020) i;
UPDATE customers SET region = 'west' WHERE id % 5 = 0;
DELETE FROM customers WHERE id % 8 = 0;
INSERT INTO customers VALUES (41, 'east', NULL), (42, NULL, NULL);
"""
# What the state is to hold of the table: rows that are flagged are not there.
VIEW = "CREATE TEMP VIEW live AS SELECT * FROM orders WHERE deleted IS NOT TRUE;"
IN_POSTGRES = SQL.replace("JOIN orders ON", "JOIN live AS orders ON")


def run(*args: str) -> None:
    assert main([*args]) == 0


def texts(said: str) -> Counter[tuple[str, ...]]:
    return Counter(map(tuple, list(csv.reader(io.StringIO(said)))[1:]))


def rows_of(postgres: Postgres, sql: str) -> Counter[tuple[str, ...]]:
    return Counter(map(tuple, postgres.run(VIEW + sql)))


def pull(day: int, postgres: Postgres) -> None:
    """Both tables, each in its own way: orders have a watermark and a flag, customers are compared whole."""
    inbox = Path("inbox").absolute()  # Java has a working directory of its own
    run(
        *("extract", "jdbc", "--url", postgres.url, "--user", "postgres", "--table", "orders", "--relation", "orders"),
        *("--watermark", "changed", "--deleted-flag", "deleted", "--overlap", "1m", "-o", f"{inbox}/{day}-orders"),
    )
    before = ["--before", "customers_before", "--before-name", f"day {day - 1}"] if day > 1 else []
    run(
        *("extract", "snapshot", "--relation", "customers", "--format", "jdbc", "--option", f"url={postgres.url}"),
        *("--option", "user=postgres", "--after", "customers", "--after-name", f"day {day}", *before),
        *("-o", f"{inbox}/{day}-customers"),
    )
    postgres.run("DROP TABLE IF EXISTS customers_before; CREATE TABLE customers_before AS SELECT * FROM customers")


def check(postgres: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    """Results as PostgreSQL has them."""
    ((many,),) = postgres.run(f"{VIEW} SELECT count(*) FROM ({IN_POSTGRES}) AS sold")
    capsys.readouterr()
    run("count")
    assert capsys.readouterr().out == f"{many}\n"
    run("enum", "--expand")
    assert texts(capsys.readouterr().out) == rows_of(postgres, IN_POSTGRES)


@pytest.fixture
def shop(spark: SparkSession, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    postgres.run(TABLES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DYNQ_JDBC_PASSWORD", PASSWORD)
    Path("spec.yaml").write_text(SPEC, "utf-8")
    Path("inbox").mkdir()
    run("init", "spec.yaml")
    return postgres


def test_results_follow_the_tables(shop: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    pull(1, shop)
    assert "rows: 300 inserted or replaced, 0 deleted; up to 20" in capsys.readouterr().err
    run("apply", "inbox")
    check(shop, capsys)
    run("mark", "yesterday")
    shop.run(f"{VIEW} CREATE TABLE sold_before AS {IN_POSTGRES}")
    shop.run(CHANGES)
    pull(2, shop)
    run("apply", "inbox")
    check(shop, capsys)
    capsys.readouterr()
    run("diff", "--since", "yesterday")
    came = rows_of(shop, f"{IN_POSTGRES} EXCEPT ALL SELECT * FROM sold_before")
    went = rows_of(shop, f"SELECT * FROM sold_before EXCEPT ALL {IN_POSTGRES}")
    expected = {(*row, "insert", str(copies)) for row, copies in came.items()}
    expected |= {(*row, "delete", str(copies)) for row, copies in went.items()}
    assert set(texts(capsys.readouterr().out)) == expected
    run("verify")
    files = [path for path in Path("inbox").rglob("*") if path.is_file()]
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_a_wrong_password_is_refused_and_not_shown(shop: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(Path("inbox/1").absolute())
    job = ["extract", "jdbc", "--table", "orders", "--relation", "orders", "--watermark", "changed", "-o", out]
    os.environ.pop("DYNQ_JDBC_PASSWORD")
    Path("secret").write_text("wrong&me\n", "utf-8")
    for url, given in ((shop.url, ["--password-file", "secret"]), (f"{shop.url}?password=wrong%26me", [])):
        assert main([*job, "--url", url, "--user", "postgres", *given]) == 1
        said = capsys.readouterr().err
        assert "password authentication failed" in said
        assert "wrong" not in said
    assert main([*job, "--url", "postgres://me:wrong@host/db"]) == 2
    assert "wrong" not in capsys.readouterr().err
    assert list(Path("inbox").iterdir()) == []


@pytest.mark.own_java
def test_a_killed_job_is_run_again(shop: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    shop.run("INSERT INTO orders (id, customer, total) SELECT i, 1, 1 FROM generate_series(10000, 200000) i")
    out = str(Path("inbox/1").absolute())
    job = ["extract", "jdbc", "--table", "orders", "--relation", "orders", "--watermark", "changed", "-o", out]
    login = ["--url", shop.url, "--user", "postgres"]
    killed = subprocess.Popen(
        [sys.executable, "-m", "dynq_cli", *job, *login, *(f"--conf={name}={value}" for name, value in CONF.items())],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_for(lambda: any(Path("inbox").glob(".1.*.unfinished/orders")) or killed.poll() is not None)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(60) == -signal.SIGKILL, killed.stderr and killed.stderr.read()
    wait_for(lambda: not is_alive(killed.pid))
    assert not Path("inbox/1").exists()
    run("apply", "inbox")
    run(*job, *login)
    assert "190,301 inserted or replaced" in capsys.readouterr().err
    run("apply", "inbox")
    assert len(held(Path(".dynq"), "orders")) == 190_301
