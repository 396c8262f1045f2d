"""One query of the paper on joins with inequalities, over its stream of insertions; prints one JSON object.

    python benchmarks/run_iedyn.py QUERY --stream N [--order random|temporal] [--engine dynq|duckdb] [--limit S]

The stream has N rows, as many of each relation, which come in turn. Attributes that are compared are uniform; in a
temporal stream each is greater than all before it. Those that are joined are uniform in 1 … 200. dynq takes
commits of COMMIT rows of a relation and counts; DuckDB counts once, when all rows are there, and gives up after S
seconds: rows is -1 then. Of a query that is not free-connex dynq keeps the count alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import threading
import time
from dataclasses import replace
from pathlib import Path

import as_command  # noqa: F401  before Arrow
import numpy as np
import pyarrow as pa

from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.compile import compile_spec
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.query.reduction import is_free_connex
from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Spec

SPEC = Path(__file__).resolve().parent.parent / "specs" / "papers" / "iedyn.yaml"
KEYS, COMMIT, WARM = 200, 1000, 60


def tables(spec: Spec, relations: list[str], stream: int, order: str) -> dict[str, pa.Table]:
    """As many rows of each relation."""
    rng, each = np.random.default_rng(1), stream // len(relations)
    made = {}
    for i, name in enumerate(relations):
        relation = spec.relation(name)
        assert relation is not None
        times = np.arange(each) * len(relations) + i
        columns: dict[str, pa.Array] = {}
        for column in relation.columns:
            if column.name == "k":
                columns["k"] = pa.array(rng.integers(1, KEYS + 1, each))
            elif column.type.name == "string":
                columns[column.name] = pa.array([f"{n}" for n in rng.integers(0, stream, each)])
            else:
                columns[column.name] = pa.array(times if order == "temporal" else rng.integers(0, stream, each))
        made[name] = pa.table(columns)
    return made


def kept(spec: Spec, query: ConjunctiveQuery, rows: dict[str, pa.Table]) -> tuple[int, float, float]:
    """What dynq counts, seconds, and seconds of the processor."""
    name = query.name
    live = Views(spec, {name: plan_query(query, spec)})
    longest = max(map(len, rows.values()))
    commits = [{r: t[at : at + COMMIT]} for at in range(0, longest, COMMIT) for r, t in rows.items() if at < len(t)]
    start, processor = time.perf_counter(), time.process_time()
    for commit in commits:
        live.apply(commit)
    return live.count(name)[0], time.perf_counter() - start, time.process_time() - processor


def counted(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """A query that no tree can enumerate, without columns: it has as many rows, all of them the same."""
    return query if is_free_connex(hypergraph_of(query)) else replace(query, head=(), columns=())


def recomputed(query: ConjunctiveQuery, rows: dict[str, pa.Table], limit: float) -> tuple[int, float]:
    """What DuckDB counts, -1 if that takes longer than `limit`, and seconds."""
    import duckdb  # dynq's process does without

    connection = duckdb.connect(":memory:")
    for name, table in rows.items():
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    alarm = threading.Timer(limit, connection.interrupt)
    alarm.start()
    start = time.perf_counter()
    try:
        (many,) = connection.execute(f"SELECT count(*) FROM ({as_sql(query)})").fetchone() or (0,)
    except duckdb.InterruptException:
        many = -1
    finally:
        alarm.cancel()
    return many, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("query")
    parser.add_argument("--stream", type=int, required=True)
    parser.add_argument("--order", choices=["random", "temporal"], default="random")
    parser.add_argument("--engine", choices=["dynq", "duckdb"], default="dynq")
    parser.add_argument("--limit", type=float, default=60.0)
    given = parser.parse_args()
    spec = load_spec(SPEC)
    query = compile_spec(spec)[given.query]
    assert isinstance(query, ConjunctiveQuery)
    relations = list(dict.fromkeys(a.source for a in query.atoms))
    spec = replace(spec, relations=tuple(r for r in spec.relations if r.name in relations), queries=())
    rows = tables(spec, relations, given.stream, given.order)
    if given.engine == "dynq":
        query = counted(query)
        kept(spec, query, {name: table[:WARM] for name, table in rows.items()})
        many, spent, processor = kept(spec, query, rows)
    else:
        many, spent = recomputed(query, rows, given.limit)
        processor = spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"rows": many, "seconds": spent, "processor": processor, "peak_mb": peak}))


if __name__ == "__main__":
    main()
