"""TPC-H and TPC-DS as the kits of DuckDB's extensions have them: all tables, all queries, unchanged.

Generators and queries stand in an environment of their own (`environments`), as for `tpcds`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from environments import install

from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec, Text
from dynq_cli.spec.types import parse_type
from dynq_cli.values.convert import arrow_type

# What the generator's interpreter runs: benchmark, its procedure, scale, directory for all of it, for the extension.
_GENERATE = """
import json, sys, duckdb, duckdb_extensions
benchmark, procedure, scale, target, extensions = sys.argv[1:]
connection = duckdb.connect(config={"extension_directory": extensions})
duckdb_extensions.import_extension(benchmark, con=connection)
connection.execute(f"LOAD {benchmark}")
connection.execute(f"CALL {procedure}(sf={scale})")
columns = {}
of = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
for table, column, kind in connection.execute(f"{of} ORDER BY table_oid, column_index").fetchall():
    columns.setdefault(table, []).append((column, kind))
for name in columns:
    connection.execute(f"COPY {name} TO '{target}/{name}.parquet'")
queries = dict(connection.execute(f"SELECT query_nr, query FROM {benchmark}_queries()").fetchall())
open(f"{target}/kit.json", "w").write(json.dumps({"columns": columns, "queries": queries}))
"""
_PROCEDURES = {"tpch": "dbgen", "tpcds": "dsdgen"}
_TYPES = {"BIGINT": "int64", "INTEGER": "int32", "VARCHAR": "string"}
# The columns of keys, as the specifications of TPC have them.
_KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey l_linenumber",
    "store_sales": "ss_item_sk ss_ticket_number",
    "store_returns": "sr_item_sk sr_ticket_number",
    "catalog_sales": "cs_item_sk cs_order_number",
    "catalog_returns": "cr_item_sk cr_order_number",
    "web_sales": "ws_item_sk ws_order_number",
    "web_returns": "wr_item_sk wr_order_number",
    "inventory": "inv_date_sk inv_item_sk inv_warehouse_sk",
}
_ORDERS = {"o_orderkey", "l_orderkey", "ss_ticket_number", "sr_ticket_number", "cs_order_number", "cr_order_number"}
_ORDERS |= {"ws_order_number", "wr_order_number", "inv_item_sk"}


def generated(benchmark: str, folder: Path, scale: float) -> Path:
    """The directory with tables and queries of a scale, written if it is not there."""
    target = folder / f"{benchmark}-kit-{scale:g}"
    if not target.exists():
        python = install("tpcds")
        writing = folder / f"{target.name}.tmp"
        writing.mkdir(parents=True, exist_ok=True)
        given = [
            benchmark,
            _PROCEDURES[benchmark],
            f"{scale:g}",
            str(writing),
            str(python.parent.parent / "extensions"),
        ]
        subprocess.run([python, "-c", _GENERATE, *given], check=True, capture_output=True)
        writing.rename(target)
    return target


def spec_of(benchmark: str, folder: Path) -> Spec:
    """All tables and all queries of a kit; those of TPC-DS may have NULL in every column but their keys."""
    kit = json.loads((folder / "kit.json").read_text())
    relations = []
    for name, columns in kit["columns"].items():
        key = tuple(_KEYS[name].split()) if name in _KEYS else (columns[0][0],)
        if benchmark == "tpcds" and name == "customer":
            key = (columns[0][0],)
        made = [
            Column(column, parse_type(_TYPES.get(kind, kind.lower()))[0], benchmark == "tpcds" and column not in key)
            for column, kind in columns
        ]
        relations.append(Relation(name, tuple(made), key))
    queries = tuple(
        QuerySpec(f"q{int(number):02}", "sql", (Text(text, "kit", ((0, 1, 1),)),))
        for number, text in sorted(kit["queries"].items(), key=lambda item: int(item[0]))
    )
    return Spec("kit", tuple(relations), queries)


def table_of(relation: Relation, folder: Path, every: int = 1) -> pa.Table:
    """The rows of a relation, in the types of the spec; of the largest ones those of every so many orders."""
    schema = pa.schema([(c.name, arrow_type(c.type)) for c in relation.columns])
    rows = pq.read_table(folder / f"{relation.name}.parquet").select(schema.names).cast(schema)
    order = next((c for c in relation.key if c in _ORDERS), None)
    if order is None or every == 1:
        return rows
    numbers = rows[order].to_numpy()
    return rows.filter(pa.array(numbers % every == 0))
