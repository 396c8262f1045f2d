"""Keep a regression over a join of TPC-H's tables, or compute it anew; print what it takes as one JSON object.

    python benchmarks/run_models.py engine|numpy FOLDER [--scale S] [--changes N]

`engine`: all tables are loaded, then N rows of lineitem go and come, each in a commit of its own; medians of five fits.
`numpy`: DuckDB joins the tables into arrays and numpy fits them; medians of three.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import tpch

from dynq_cli.engine.models import fits
from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec

SPEC = """\
version: 1
relations:
  customer: {columns: {c_custkey: int64, c_acctbal: "decimal(15,2)"}, key: [c_custkey], changes: rare}
  orders: {columns: {o_orderkey: int64, o_custkey: int64, o_totalprice: "decimal(15,2)"}, key: [o_orderkey]}
  lineitem:
    columns: {l_orderkey: int64, l_linenumber: int32, l_quantity: "decimal(15,2)", l_extendedprice: "decimal(15,2)"}
    key: [l_orderkey, l_linenumber]
    changes: often
queries:
  sold:
    sql: >
      SELECT o_totalprice, l_quantity, l_extendedprice, c_acctbal FROM lineitem, orders, customer
      WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey
    keep: rows
models:
  total: {over: sold, label: o_totalprice, features: [l_quantity, l_extendedprice, c_acctbal]}
"""
COMMITS = 100_000
COLUMNS = ("l_quantity", "l_extendedprice", "c_acctbal")


def timed(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def by_engine(folder: Path, changes: int) -> dict[str, float]:
    planned = plan_spec(SPEC)
    live, model = Views(planned.spec, planned.kept), planned.spec.model("total")
    assert model is not None
    tables = {r.name: tpch.table_of(r, folder) for r in planned.spec.relations}
    for name, table in tables.items():
        live.apply({name: table})
    log = single_changes(tables["lineitem"], changes)
    live.apply_commits("lineitem", log.slice(0, 2), [1, 2])
    spent = 0.0
    for start in range(0, len(log), COMMITS):
        some = log.slice(start, COMMITS)
        ends = np.arange(1, len(some) + 1)
        spent += timed(lambda some=some, ends=ends: live.apply_commits("lineitem", some, ends))  # type: ignore[misc]
    fit = statistics.median(timed(lambda: list(fits(live, model))) for _ in range(5))
    (found,) = fits(live, model)
    kept = int(live.engine.arena.top) * 8
    return {"rows": found.n, "change_s": spent / len(log), "fit_s": fit, "kept_mb": kept / 1e6}


def single_changes(lines: pa.Table, changes: int) -> pa.Table:
    """Rows of lineitem that go and come back, one after the other."""
    chosen = np.random.default_rng(1).integers(0, lines.num_rows, changes // 2)
    twice = lines.take(pa.array(np.repeat(chosen, 2)))
    return twice.append_column("_change_type", pa.array(["delete", "insert"] * len(chosen)))


def by_numpy(folder: Path) -> dict[str, float]:
    con, tables = duckdb.connect(), 0
    for relation in plan_spec(SPEC).spec.relations:
        given = tpch.table_of(relation, folder)
        tables += given.nbytes
        con.register("given", given)
        con.execute(f"CREATE TABLE {relation.name} AS SELECT * FROM given")
    shown = ", ".join(f"CAST({c} AS DOUBLE) AS {c}" for c in (*COLUMNS, "o_totalprice"))
    text = f"SELECT {shown} FROM lineitem, orders, customer WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey"
    joins, solves, rows, size = [], [], 0, 0
    for _ in range(3):
        start = time.perf_counter()
        found = con.execute(text).fetchnumpy()
        features = np.stack([np.ones(len(found["o_totalprice"])), *(found[c] for c in COLUMNS)], axis=1)
        middle = time.perf_counter()
        np.linalg.lstsq(features, found["o_totalprice"], rcond=None)
        joins.append(middle - start)
        solves.append(time.perf_counter() - middle)
        rows, size = len(features), features.nbytes + found["o_totalprice"].nbytes
    join, solve = statistics.median(joins), statistics.median(solves)
    return {"rows": rows, "join_s": join, "solve_s": solve, "refresh_s": join + solve, "kept_mb": (tables + size) / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=("engine", "numpy"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--changes", type=int, default=100_000)
    given = parser.parse_args()
    data = tpch.generated(given.folder, given.scale)
    print(json.dumps(by_engine(data, given.changes) if given.system == "engine" else by_numpy(data)))


if __name__ == "__main__":
    main()
