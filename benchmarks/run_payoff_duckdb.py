"""DuckDB's side of `payoff`: a database in a file takes the changes, and computes the query again.

    python benchmarks/run_payoff_duckdb.py load CASE DATABASE FOLDER
    python benchmarks/run_payoff_duckdb.py keep CASE DATABASE
    python benchmarks/run_payoff_duckdb.py step CASE DATABASE ASK COMMIT OUT
    python benchmarks/run_payoff_duckdb.py resident CASE DATABASE ASK OPENING COMMIT...
    python benchmarks/run_payoff_duckdb.py same FILE FILE

`load` makes the database from Parquet, `keep` stores the result in it, with which a delta is found. `step` is the
command of cron: commit one transaction, answer, end; it prints the count. `resident` stays open and takes many commits;
their changes are Arrow tables in memory. After the first OPENING ones nothing is asked but after the last of them. It
prints the seconds of the others, and the rows of the result at the end, as JSON.
`same` fails where the rows of two Parquet files differ.

Tables have no indexes, which is quickest here: a delete scans a column of keys. The delta compares the new result with
the one kept, by antijoins: results have no row twice and no NULL, and EXCEPT ALL takes ten times as long.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from payoff_cases import BY_HAND, CASES, COUNT, DELTA, DUCKDB_TYPES, MEMORY_LIMIT, Case, type_of


def opened(database: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(database), config={"memory_limit": MEMORY_LIMIT})


def load(case: Case, database: Path, folder: Path) -> None:
    with opened(database) as con:
        for table, columns in case.tables.items():
            typed = ", ".join(f"{column} {DUCKDB_TYPES[type_of(column)]}" for column in columns)
            con.execute(f"CREATE TABLE {table} ({typed})")
            con.execute(f"INSERT INTO {table} FROM '{folder}/base/{table}.parquet'")


def keep(case: Case, database: Path) -> None:
    with opened(database) as con:
        con.execute(f"CREATE OR REPLACE TABLE kept AS {case.sql}")


def take(con: duckdb.DuckDBPyConnection, case: Case, changes: dict[str, str]) -> None:
    """Commit changes, given as what FROM may name, by table."""
    con.begin()
    for table, source in changes.items():
        columns = case.tables[table]
        con.execute(
            f"DELETE FROM {table} USING {source} AS log WHERE {table}.{columns[0]} = log.{columns[0]}"
            " AND log._change_type IN ('delete', 'update_preimage')"
        )
        con.execute(
            f"INSERT INTO {table} SELECT {', '.join(columns)} FROM {source}"
            " WHERE _change_type IN ('insert', 'update_postimage')"
        )
    con.commit()


def answer(con: duckdb.DuckDBPyConnection, case: Case, ask: str, out: Path | None) -> Any:
    """The count; else the rows, in a Parquet file or, where none is named, as an Arrow table."""
    if ask in (COUNT, BY_HAND):
        query = case.counted_by_hand if ask == BY_HAND else f"SELECT count(*) FROM ({case.sql})"
        return con.execute(query).fetchall()
    query = case.sql
    if ask == DELTA:
        con.execute(f"CREATE TABLE fresh AS {case.sql}")
        query = difference(con)
    made = con.execute(f"COPY ({query}) TO '{out}'") if out else con.sql(query).to_arrow_table()
    if ask == DELTA:
        con.execute("DROP TABLE kept")
        con.execute("ALTER TABLE fresh RENAME TO kept")
    return made


def difference(con: duckdb.DuckDBPyConnection) -> str:
    columns = ", ".join(con.sql("FROM fresh").columns)
    return (
        f"SELECT *, 'insert' AS _change_type FROM fresh ANTI JOIN kept USING ({columns})"
        f" UNION ALL SELECT *, 'delete' FROM kept ANTI JOIN fresh USING ({columns})"
    )


def step(case: Case, database: Path, ask: str, commit: Path, out: Path) -> None:
    with opened(database) as con:
        take(con, case, {path.name.split(".")[0]: f"'{path}'" for path in commit.iterdir()})
        found = answer(con, case, ask, out)
        if ask in (COUNT, BY_HAND):
            print(found[0][0])


def resident(case: Case, database: Path, ask: str, opening: int, commits: list[Path]) -> None:
    from logs import changes_in

    spent = []
    with opened(database) as con:
        for number, commit in enumerate(commits, 1):
            tables = changes_in(commit)
            for name, table in tables.items():
                con.register(f"changes_of_{name}", table)
            start = time.perf_counter()
            take(con, case, {name: f"changes_of_{name}" for name in tables})
            if number >= opening:
                answer(con, case, ask, None)
                spent.append(time.perf_counter() - start)
            for name in tables:
                con.unregister(f"changes_of_{name}")
        ((rows,),) = con.execute(f"SELECT count(*) FROM ({case.sql})").fetchall()
    print(json.dumps({"rows": rows, "spent": spent[1:]}))


def same(one: Path, other: Path) -> None:
    with duckdb.connect(config={"memory_limit": MEMORY_LIMIT}) as con:
        a, b = (con.execute(f"SELECT count(*) FROM '{path}'").fetchall()[0][0] for path in (one, other))
        columns = ", ".join(con.sql(f"FROM '{other}'").columns)
        ((missing,),) = con.execute(
            f"SELECT count(*) FROM (FROM '{one}' ANTI JOIN '{other}' USING ({columns}))"
        ).fetchall()
    if a != b or missing:
        sys.exit(f"{one} has {a} rows, {other} has {b}, which lacks {missing} of them")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, words in {
        "load": ("folder",),
        "keep": (),
        "step": ("ask", "commit", "out"),
        "resident": ("ask", "opening", "commits"),
        "same": ("one", "other"),
    }.items():
        takes = verbs.add_parser(verb)
        if verb != "same":
            takes.add_argument("case", choices=CASES)
            takes.add_argument("database", type=Path)
        for word in words:
            kind = {"ask": str, "opening": int}.get(word, Path)
            takes.add_argument(word, type=kind, nargs="+" if word == "commits" else None)
    given = vars(parser.parse_args())
    if "case" in given:
        given["case"] = CASES[given["case"]]
    does: dict[str, Callable[..., None]] = {
        "load": load,
        "keep": keep,
        "step": step,
        "resident": resident,
        "same": same,
    }
    does[given.pop("verb")](**given)


if __name__ == "__main__":
    main()
