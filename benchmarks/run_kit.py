"""Keep all queries of a kit up to date under a stream, and compare each with DuckDB's result after every commit.

    python benchmarks/run_kit.py tpch|tpcds FOLDER [--scale S] [--chunks N] [--every K] [--only q01,q02]

Prints one JSON object: the queries that are refused, with the reason; for each of the others how often it was compared,
and the rows it had in the end. With `--every K` there is one in K orders.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import as_command  # noqa: F401  before Arrow
import duckdb
import kits
from compare import DiffersError, compared
from stream import stream

from dynq_cli.engine.views import Views
from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Spec


def refused(spec: Spec) -> dict[str, str]:
    """The queries of a kit that are not taken, each with the first reason."""
    found = {}
    for query in spec.queries:
        try:
            compile_query(spec, query)
        except SpecError as error:
            found[query.name] = str(error).splitlines()[0]
    return found


def run(benchmark: str, data: Path, chunks: int, every: int, only: set[str]) -> dict[str, Any]:
    spec = kits.spec_of(benchmark, data)
    out = refused(spec)
    taken = tuple(q for q in spec.queries if q.name not in out and (not only or q.name in only))
    spec = replace(spec, queries=taken)
    given = stream(spec, lambda relation: kits.table_of(relation, data, every), chunks)
    done: dict[str, Any] = {}
    for query in taken:
        read = tuple(r for r in spec.relations if re.search(rf"\b{r.name}\b", query.texts[0].value))
        alone = replace(spec, queries=(query,), relations=read)
        started = time.perf_counter()
        try:
            live = Views(alone, {query.name: program_of(compile_query(alone, query), alone)})
            seconds = 0.0
            for k, commit in enumerate(given.commits):
                start = time.perf_counter()
                live.apply({name: table for name, table in commit.items() if alone.relation(name) is not None})
                seconds += time.perf_counter() - start
                compared(live, alone, replace(given, spec=alone), k + 1)
            done[query.name] = {"commits": len(given.commits), "rows": live.count(query.name)[0], "seconds": seconds}
        except DiffersError as error:
            done[query.name] = {"differs": str(error)}
        except Exception as error:
            done[query.name] = {"failed": f"{type(error).__name__}: {error}"}
        print(query.name, done[query.name], round(time.perf_counter() - started, 1), file=sys.stderr, flush=True)
    return {"refused": out, "queries": done, "duckdb": duckdb.__version__}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("benchmark", choices=("tpch", "tpcds"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    only = {name for name in asked.only.split(",") if name}
    data = kits.generated(asked.benchmark, asked.folder, asked.scale)
    print(json.dumps(run(asked.benchmark, data, asked.chunks, asked.every, only)))


if __name__ == "__main__":
    main()
