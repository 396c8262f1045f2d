"""What `docs/spark.md` shows is what happens: its commands are run, and what they say is compared, but for numbers."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dynq_cli.cli.app import main
from tests.conftest import ROOT
from tests.spark.postgres import PASSWORD, Postgres
from tests.test_docs import blocks

PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")
SPEC = """\
version: 1
relations:
  orders: {columns: {o_orderkey: int64, o_custkey: int64, o_totalprice: 'decimal(15,2)'}, key: [o_orderkey]}
  customers: {columns: {c_custkey: int64, c_name: string?}, key: [c_custkey]}
queries:
  sold: {sql: "SELECT c_name, o_orderkey FROM orders JOIN customers ON o_custkey = c_custkey WHERE o_totalprice > 2"}
"""
# What Java compiles is not run for long enough to pay off.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
Said = list[tuple[str, str]]


def shown(command: str) -> Said:
    """The commands of the block that has this one, each with what it is said to print."""
    (block,) = (block for block in blocks(PAGE, "console") if f"$ {command}" in block)
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return [(line.replace("\\\n", " "), output) for line, output in found]


def program(sign: str) -> str:
    """The block of text or shell that has this in it."""
    (block,) = (block for block in blocks(PAGE, "(?:text|sh)") if sign in block)
    return block


def without_numbers(text: str) -> str:
    """
    >>> without_numbers("1,204 updates; up to 2026-04-12 01:59:58.104+00:00")
    'N updates; up to N N'
    """
    return re.sub(r"\d(?:[\d,.:+-]*\d)?", "N", text)


def save(folder: Path, prices: dict[int, str]) -> None:
    folder.mkdir(parents=True)
    keys = list(prices)
    price = pa.array(list(prices.values())).cast(pa.decimal128(15, 2))
    table = pa.table({"o_orderkey": keys, "o_custkey": [k % 3 for k in keys], "o_totalprice": price})
    pq.write_table(table, folder / "part-0.parquet")


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to work in, for Java, too: the session is that of all tests, and began elsewhere."""
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC, "utf-8")
    save(Path("lake/orders/2026-01-01"), {1: "1.00", 2: "2.00", 3: "3.00", 4: "4.00", 5: "5.00"})
    save(Path("lake/orders/2026-01-02"), {2: "2.50", 3: "3.50", 4: "4.00", 6: "6.00", 7: "7.00"})
    jvm: Any = spark.sparkContext._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(spark.sparkContext._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(tmp_path)))
    yield tmp_path
    files.setWorkingDirectory(before)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command of the page; its exit code, and what it printed."""

    def run(command: str) -> tuple[int, str]:
        first, *args = shlex.split(command, comments=True)
        assert first == "dynq"
        capsys.readouterr()
        code = main(args)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


Say = Callable[[str], tuple[int, str]]


def follow(commands: Said, say: Say) -> None:
    for command, output in commands:
        code, printed = say(command)
        assert code == 0, printed
        assert without_numbers(output) in without_numbers(printed), command


def test_snapshots_and_what_is_ready(shop: Path, say: Say) -> None:
    (_, (check, ready)) = shown("dynq extract --check")
    assert ready.startswith("Spark is ready: pyspark ")
    assert re.match("Spark is ready: pyspark N, Java N, ", without_numbers(say(check)[1]))
    follow(shown("dynq init spec.yaml  "), say)
    assert say("dynq verify")[0] == 0


def test_a_database(shop: Path, say: Say, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS orders; CREATE TABLE orders (o_orderkey bigint PRIMARY KEY, o_custkey bigint,"
        " o_totalprice numeric(15,2), changed_at timestamptz, deleted boolean);"
        "INSERT INTO orders VALUES (1, 1, 5, now(), false), (2, 2, 6, now(), true)"
    )
    ((export, _), (extract, output)) = shown("export DYNQ_JDBC_PASSWORD")
    monkeypatch.setenv(export.split()[1].partition("=")[0], PASSWORD)
    command = extract.replace("jdbc:postgresql://db/shop", postgres.url).replace("--user me", "--user postgres")
    follow([("dynq init spec.yaml", ""), (command, output), ("dynq apply inbox", "")], say)


def event(relation: str, lsn: int, row: dict[str, Any]) -> str:
    source = {
        "connector": "postgresql",
        "table": relation,
        "lsn": lsn,
        "sequence": json.dumps([str(lsn - 1), str(lsn)]),
    }
    return json.dumps({"before": None, "after": row, "op": "c", "source": source, "ts_ms": 1})


def test_events_and_a_stream(shop: Path, say: Say) -> None:
    events = [
        event("customers", 24023127, {"c_custkey": 1, "c_name": "Ann"}),
        event("orders", 24023130, {"o_orderkey": 1, "o_custkey": 1, "o_totalprice": "7.50"}),
    ]
    Path("landing/2026-01-01T10").mkdir(parents=True)
    Path("landing/2026-01-01T10/events.json").write_text("\n".join(events), "utf-8")
    follow([("dynq init spec.yaml", ""), *shown("dynq extract debezium"), ("dynq apply inbox", "")], say)
    (once, rehearsed, _) = shown("dynq extract stream landing")
    Path("landing/2026-01-01T10/events.json").unlink()
    Path("landing/orders.jsonl").write_text('{"o_orderkey": 9, "o_custkey": 1, "o_totalprice": 8}\n', "utf-8")
    follow([rehearsed], say)
    assert say("dynq count")[1] == "1\n"
    follow([once], say)
    assert say("dynq count")[1] == "2\n"


def test_a_catalog_without_changes_is_said(shop: Path, say: Say, spark: SparkSession) -> None:
    ((extract, _),) = shown("dynq extract changes")
    spark.range(1).write.saveAsTable("feedless_orders")
    try:
        command = extract.replace("lake.sales.orders", "feedless_orders").partition(" --conf")[0]
        code, said = say(f"{command} --spec spec.yaml")
    finally:
        spark.sql("DROP TABLE feedless_orders")
    assert code == 2
    assert "feedless_orders: its catalog has no change feed\n  hint:" in said


def test_a_job_of_ones_own(shop: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (str(shop / "lake/orders" / day) for day in ("2026-01-01", "2026-01-02"))
    exec(program("extract_snapshot(spark"), {"spark": spark, "old": old, "new": new, "out": str(shop / "out")})
    assert capsys.readouterr().out == "2 2 2\n"


def outside(command: list[str], **env: str) -> str:
    """Run a program as a user would, in a process with a Java of its own; what it printed."""
    found = {**os.environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": QUICK_JAVA, **env}
    done = subprocess.run(
        command, env=found, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.own_java
def test_spark_submit(shop: Path) -> None:
    Path("run.py").write_text(program("from dynq_cli.spark.program import run"), "utf-8")
    (((command, _),)) = shown("spark-submit")
    local = command.replace("--master yarn", "--master local[2] --conf spark.ui.enabled=false").replace("s3a://", "")
    args = shlex.split(local.replace("orders/01", "orders/2026-01-01").replace("orders/02", "orders/2026-01-02"))
    submit = Path(sys.executable).with_name("spark-submit")
    said = outside([str(submit), *args[1:]], PYSPARK_PYTHON=sys.executable)
    assert "dynq: lake/changes/orders-02: orders, 2 inserted, 2 replaced, 2 deleted" in said
    assert Path("lake/changes/orders-02/_SUCCESS").exists()


@pytest.mark.own_java
def test_the_script_for_every_night(shop: Path) -> None:
    """On the first day; the days after it are those of the first section."""
    Path("bin").mkdir()
    for name, line in (("dynq", f'exec {sys.executable} -m dynq_cli "$@"'), ("export_orders", 'cp -r "$DAY" "$1"')):
        Path("bin", name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        Path("bin", name).chmod(0o755)
    for folder in ("shop/snapshots", "shop/inbox"):
        Path(folder).mkdir(parents=True)
    Path("shop/spec.yaml").write_text(SPEC, "utf-8")
    path = f"{shop / 'bin'}{os.pathsep}{os.environ['PATH']}"
    outside(["sh", "-c", "cd shop && dynq init spec.yaml"], PATH=path)
    script = program("export_orders").replace("$HOME/shop", "shop")
    said = outside(["sh", "-c", script], PATH=path, DAY=str(shop / "lake/orders/2026-01-01"))
    assert "orders, 5 inserted, 0 replaced, 0 deleted" in said
    assert "version 1" in said
