"""The tables of TPC-DS, as the generator generates them that is an extension of DuckDB.

It runs in an environment of its own (`environments`), since it is there for an earlier DuckDB than dynq uses. Its rows
are not kept in the repository: TPC licenses generator and data, and a sample small enough has no row in most results.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from environments import install

from dynq_cli.spec.model import Relation
from dynq_cli.values.convert import arrow_type

# What the generator's interpreter runs: scale, directory for the tables, directory for the extension.
_GENERATE = """
import sys, duckdb, duckdb_extensions
scale, target, extensions = sys.argv[1:]
connection = duckdb.connect(config={"extension_directory": extensions})
duckdb_extensions.import_extension("tpcds", con=connection)
connection.execute("LOAD tpcds")
connection.execute(f"CALL dsdgen(sf={scale})")
for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    connection.execute(f"COPY {name} TO '{target}/{name}.parquet'")
"""


def generated(folder: Path, scale: float) -> Path:
    """The directory with the data of a scale, written if it is not there."""
    target = folder / f"tpcds-{scale:g}"
    if not target.exists():
        python = install("tpcds")
        writing = folder / f"{target.name}.tmp"
        writing.mkdir(parents=True, exist_ok=True)
        extensions = python.parent.parent / "extensions"
        command: list[str | Path] = [python, "-c", _GENERATE, f"{scale:g}", writing, extensions]
        subprocess.run(command, check=True, capture_output=True)
        writing.rename(target)
    return target


def table_of(relation: Relation, folder: Path) -> pa.Table:
    """The rows of a relation, in the columns and types of the spec."""
    names = [c.name for c in relation.columns]
    schema = pa.schema([(c.name, arrow_type(c.type)) for c in relation.columns])
    return pq.read_table(folder / f"{relation.name}.parquet", columns=names).select(names).cast(schema)
