"""Recompute a workload's count with DuckDB after each chunk, and print the times as one JSON object.

    python benchmarks/run_duckdb.py DIR

The tables are in DuckDB's memory and bringing them up to date is not timed, only the count.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path

import duckdb
import pyarrow as pa
from logs import logs_in

from dynq_cli.spec.load import load_spec

JOINS = {
    "LPS": "SELECT count(*) FROM L JOIN S USING (s) JOIN P USING (s)",
    "RST": "SELECT count(*) FROM R JOIN S USING (y) JOIN T USING (z)",
}


def made(folder: Path) -> tuple[duckdb.DuckDBPyConnection, str]:
    """A database with the spec's relations, empty, and the query that counts the join."""
    con = duckdb.connect()
    relations = load_spec(folder / "spec.yaml").relations
    for relation in relations:
        con.execute(f"CREATE TABLE {relation.name} ({', '.join(f'{c.name} BIGINT' for c in relation.columns)})")
    return con, JOINS["".join(sorted(relation.name for relation in relations))]


def follow(con: duckdb.DuckDBPyConnection, relation: str, table: pa.Table) -> None:
    """Bring a table up to date with a log."""
    columns = [name for name in table.column_names if name != "_change_type"]
    con.register("log", table)
    agree = " AND ".join(f"{relation}.{c} = log.{c}" for c in columns)
    con.execute(f"DELETE FROM {relation} USING log WHERE log._change_type = 'delete' AND {agree}")
    con.execute(f"INSERT INTO {relation} SELECT {', '.join(columns)} FROM log WHERE _change_type = 'insert'")
    con.unregister("log")


def counted(con: duckdb.DuckDBPyConnection, query: str) -> tuple[int, float]:
    """The count and the seconds it took."""
    start = time.perf_counter()
    ((count,),) = con.execute(query).fetchall()
    return int(count), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    con, query = made(folder)
    changes, count, spent = 0, 0, []
    for _, chunk in itertools.groupby(logs_in(folder), lambda log: log.chunk):
        for log in chunk:
            table = log.table()
            follow(con, log.relation, table)
            changes += len(table)
        count, taken = counted(con, query)
        spent.append(taken)
    per_chunk = {"count_s": statistics.median(spent), "changes_per_s": changes / sum(spent)}
    print(json.dumps({"changes": changes, "rows": count, "chunks": len(spent), **per_chunk}))


if __name__ == "__main__":
    main()
