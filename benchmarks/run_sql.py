"""Run the stream of one query of a kit through the engine, and print what it took as one JSON object.

    python benchmarks/run_sql.py tpch|tpcds QUERY FOLDER [--scale S] [--chunks N] [--check | --duckdb]

As `run_tpch.py`, with the query as DuckDB's kit has it, and the relations that it reads.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

import as_command  # noqa: F401  before Arrow
import kits
from run_tpch import recomputed, run, warm
from stream import stream

from dynq_cli.spec.model import Spec, Text


def one_query(benchmark: str, name: str, data: Path) -> Spec:
    """The spec of one query of a kit."""
    whole = kits.spec_of(benchmark, data)
    query = next(q for q in whole.queries if q.name == name)
    text = query.texts[0].value.rstrip().rstrip(";")
    read = tuple(r for r in whole.relations if re.search(rf"\b{r.name}\b", text))
    return replace(whole, queries=(replace(query, texts=(Text(text, "kit", ((0, 1, 1),)),)),), relations=read)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("benchmark", choices=("tpch", "tpcds"))
    parser.add_argument("query")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--duckdb", action="store_true")
    asked = parser.parse_args()
    data = kits.generated(asked.benchmark, asked.folder, asked.scale)
    spec = one_query(asked.benchmark, asked.query, data)
    given = stream(spec, lambda relation: kits.table_of(relation, data), asked.chunks)
    if asked.duckdb:
        print(json.dumps(recomputed(spec, given)))
        return
    warm(spec, given.commits)
    print(json.dumps(run(spec, given, check=asked.check)))


if __name__ == "__main__":
    main()
