"""One stream for all engines: customer, orders and lineitem of TPC-H, inserts, then deletes and updates.

    python benchmarks/peer_stream.py FOLDER --scale S

Writes each relation's changes in their order, as `RELATION.parquet` with the number of the commit, and as
`RELATION.json` in Debezium's format, which Flink reads. An update is a delete and an insert; prices are in cents, since
not every engine has decimals.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import tpch
from stream import Stream, stream

from dynq_cli.spec.load import load_spec

CHUNKS = 20
HERE = Path(__file__).resolve().parent
SPECS = {"groups": HERE / "peer_groups.yaml", "join": HERE / "peer_join.yaml"}
# The columns of the stream, as expressions over those of TPC-H.
COLUMNS = {
    "customer": {"c_custkey": "c_custkey", "c_nationkey": "c_nationkey"},
    "orders": {"o_orderkey": "o_orderkey", "o_custkey": "o_custkey"},
    "lineitem": {
        "l_orderkey": "l_orderkey",
        "ln": "l_linenumber",
        "cents": "CAST(l_extendedprice * 100 AS BIGINT)",
    },
}


def generated(folder: Path, scale: float) -> Stream:
    """The stream in memory, from what `tpchgen-cli` generates."""
    data = tpch.generated(folder, scale)
    spec = load_spec(SPECS["join"])

    def table(name: str) -> pa.Table:
        columns = ", ".join(f"{said} AS {column}" for column, said in COLUMNS[name].items())
        types = "{'l_extendedprice': 'DECIMAL(15,2)'}" if name == "lineitem" else "{}"
        found = duckdb.sql(f"SELECT {columns} FROM read_csv('{data / name}.csv', types = {types})")
        assert found is not None
        return found.to_arrow_table()

    return stream(spec, lambda relation: table(relation.name), CHUNKS)


def write(given: Stream, folder: Path) -> int:
    """Both files of every relation; how many changes they have."""
    folder.mkdir(parents=True, exist_ok=True)
    changes = 0
    for relation in given.spec.relations:
        parts = []
        for number, commit in enumerate(given.commits):
            if relation.name in commit:
                log = commit[relation.name]
                parts.append(log.append_column("commit", pa.repeat(number, len(log))))
        log = pa.concat_tables(parts)
        names = ", ".join(c.name for c in relation.columns)
        row = ", ".join(f"{c.name} := {c.name}" for c in relation.columns)
        came = "_change_type IN ('insert', 'update_postimage')"
        kind = f"CASE WHEN {came} THEN 'insert' ELSE 'delete' END"
        found = duckdb.sql(f'SELECT {kind} AS _change_type, {names}, "commit" FROM log')
        assert found is not None
        ordered: pa.Table = found.to_arrow_table()
        pq.write_table(ordered, folder / f"{relation.name}.parquet")
        before, after = (f"CASE WHEN {sign} {came} THEN struct_pack({row}) END" for sign in ("NOT", ""))
        op = f"CASE WHEN {came} THEN 'c' ELSE 'd' END"
        said = f"SELECT {before} AS before, {after} AS after, {op} AS op FROM log"
        duckdb.sql(f"COPY ({said}) TO '{folder / relation.name}.json' (FORMAT json)")
        changes += len(ordered)
    return changes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.1)
    asked = parser.parse_args()
    print(json.dumps({"changes": write(generated(asked.folder, asked.scale), asked.folder / "peers")}))


if __name__ == "__main__":
    main()
