"""The tables of TPC-H, as `tpchgen-cli` generates them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pv

from dynq_cli.spec.model import Relation
from dynq_cli.values.convert import arrow_type


def generated(folder: Path, scale: float) -> Path:
    """The directory with the data of a scale, written if it is not there."""
    target = folder / f"tpch-{scale:g}"
    if not (target / "lineitem.csv").exists():
        tool = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([tool, "csv", "-s", f"{scale:g}", f"--output-dir={target}"], check=True, capture_output=True)
    return target


def table_of(relation: Relation, folder: Path) -> pa.Table:
    """The rows of a relation, in the columns and types of the spec."""
    types = {c.name: arrow_type(c.type) for c in relation.columns}
    options = pv.ConvertOptions(column_types=types, include_columns=list(types))
    return pv.read_csv(folder / f"{relation.name}.csv", convert_options=options)
