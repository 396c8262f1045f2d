"""Triangles of one graph, loaded, changed here and there, and changed at its hubs; prints one JSON object.

    python benchmarks/run_cycles.py SHAPE --edges N [--engine dynq|duckdb] [--epsilon E]

The triangles of r(a, b), s(b, c), t(c, a) are counted; each relation has a third of the edges. `uniform`: ends are
uniform, eight edges per node. `zipf`: nodes have weights 1/rank. `hubs`: a quarter of the edges begins, and another
ends, at ten nodes, so that their lists are linear in N.

dynq loads all edges in one commit; then come commits of MIXED changes each, half of them deletes; then the edges
between the five nodes with the longest lists at either end, in and out again, a commit for all that come and one for
all that go, and each in a commit of its own. DuckDB counts once when all edges are there. Times per change are those of
the processor.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterator

import as_command  # noqa: F401  before Arrow
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dynq_cli.engine.cycle_sums import CycleSums
from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec

MIXED, COMMITS, ROUNDS, HUBS = 1000, 18, 8, 5
# New edges of each relation that mixed commits bring.
MORE = MIXED // 2 * COMMITS // 3
SQL = "SELECT count(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
LISTING = "SELECT r.a, r.b, s.c FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
# With hints that say so, the paths over r and s are stored, and a change of t is looked up in them.
RARE, OFTEN = ", changes: rare", ", changes: often"
SPEC = """\
version: 1
relations:
  r: {{columns: {{a: int64, b: int64}}{rare}}}
  s: {{columns: {{b: int64, c: int64}}{rare}}}
  t: {{columns: {{c: int64, a: int64}}{often}}}
queries:
  n: {{sql: "{sql}", epsilon: {epsilon}, max_view_rows: 1000000000}}
"""
COLUMNS = {"r": ("a", "b"), "s": ("b", "c"), "t": ("c", "a")}
Ends = NDArray[np.int64]


def edges_of(shape: str, many: int, seed: int) -> Ends:
    """Distinct edges, a row each, in no order."""
    rng = np.random.default_rng(seed)
    nodes = many if shape == "hubs" else max(16, many // 8)
    weights = 1 / np.arange(1, nodes + 1)
    found = np.zeros((0, 2), np.int64)
    while len(found) < many:
        if shape == "zipf":
            drawn = rng.choice(nodes, (2 * many, 2), p=weights / weights.sum())
        else:
            drawn = rng.integers(0, nodes, (2 * many, 2))
        if shape == "hubs":
            kind = rng.integers(0, 4, len(drawn))
            for end in (0, 1):
                drawn[kind == end, end] = rng.integers(0, 10, (kind == end).sum())
        found = np.unique(np.concatenate([found, drawn]), axis=0)
    return rng.permutation(found)[:many]


def table(name: str, ends: Ends, kinds: str | Ends = "insert") -> pa.Table:
    first, second = COLUMNS[name]
    said = pa.array(np.broadcast_to(np.asarray(kinds), len(ends)))
    return pa.table({"_change_type": said, first: ends[:, 0], second: ends[:, 1]})


def mixed(graph: dict[str, Ends], more: dict[str, Ends]) -> Iterator[dict[str, pa.Table]]:
    """Commits of new edges, and as many old ones that go."""
    half = MIXED // 2
    for number in range(COMMITS):
        name = "rst"[number % 3]
        part = slice(number // 3 * half, number // 3 * half + half)
        kinds = np.repeat(["insert", "delete"], half)
        yield {name: table(name, np.concatenate([more[name][part], graph[name][part]]), kinds)}


def hub_edges(graph: dict[str, Ends]) -> Ends:
    """Pairs of a node with many edges in t and one with many in s: edges of r that are not there."""
    to_a = np.bincount(graph["t"][:, 1]).argsort()[-HUBS:]
    from_b = np.bincount(graph["s"][:, 0]).argsort()[-HUBS:]
    every = np.array([(a, b) for a in to_a for b in from_b], np.int64)
    there = {tuple(edge) for edge in graph["r"].tolist()}
    return np.array([edge for edge in every.tolist() if tuple(edge) not in there], np.int64).reshape(-1, 2)


def kept(shape: str, edges: int, epsilon: str, *, listing: bool = False, stored: bool = False) -> dict[str, float]:
    hints = {"rare": RARE, "often": OFTEN} if stored else {"rare": "", "often": ""}
    spec = parse_spec(SPEC.format(sql=LISTING if listing else SQL, epsilon=epsilon, **hints), "spec.yaml")
    live = Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})
    cycle = next(iter(live.engine._deriving.cycles.values()), None)
    assert (cycle is None) == stored
    most = edges // 3
    every = {name: edges_of(shape, most + MORE, seed) for seed, name in enumerate(COLUMNS)}
    graph, more = ({name: all_[part] for name, all_ in every.items()} for part in (slice(most), slice(most, None)))
    found: dict[str, float] = {"edges": 3 * most}

    def measured(name: str, commits: list[dict[str, pa.Table]]) -> None:
        changes, before = sum(len(t) for c in commits for t in c.values()), cycle.scanned if cycle else 0
        start = time.process_time()
        for commit in commits:
            live.apply(commit)
        found[f"{name}_us"] = (time.process_time() - start) / changes * 1e6
        found[f"{name}_scanned"] = (cycle.scanned if cycle else 0) / changes - before / changes

    measured("load", [{name: table(name, ends) for name, ends in graph.items()}])
    found["rows"] = live.count("n")[0] if listing else _counted(live)
    measured("mixed", list(mixed(graph, more)))
    hubs = hub_edges({name: np.concatenate([graph[name], more[name]]) for name in graph})
    churn = [{"r": table("r", hubs, kind)} for kind in ("insert", "delete")] * ROUNDS
    measured("hub", churn if len(hubs) else [])
    alone = [hubs[i : i + 1] for i in range(len(hubs))]
    measured("single", [{"r": table("r", edge, kind)} for edge in alone for kind in ("insert", "delete")])
    found["pairs"] = cycle.pairs if isinstance(cycle, CycleSums) else 0
    tables = live.engine.arena.tables
    found["state_mb"] = float((tables["used"] * tables["stride"] + tables["mask"] + 1).sum()) * 8 / 1e6
    return found


def _counted(live: Views) -> int:
    (row,) = (row for batch in live.enum("n") for row in batch.to_pylist())
    return int(row["n"])


def recounted(shape: str, edges: int) -> dict[str, float]:
    import duckdb  # dynq's process does without

    connection, most = duckdb.connect(":memory:"), edges // 3
    for seed, name in enumerate(COLUMNS):
        ends = edges_of(shape, most + MORE, seed)[:most]
        connection.register("given", table(name, ends).drop_columns(["_change_type"]))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    start = time.perf_counter()
    (rows,) = connection.execute(SQL).fetchone() or (0,)
    return {"edges": 3 * most, "rows": rows, "seconds": time.perf_counter() - start}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=("uniform", "zipf", "hubs"))
    parser.add_argument("--edges", type=int, required=True)
    parser.add_argument("--engine", choices=("dynq", "duckdb"), default="dynq")
    parser.add_argument("--epsilon", default="0.5")
    parser.add_argument("--listing", action="store_true", help="list the triangles, do not count them")
    parser.add_argument("--stored", action="store_true", help="with the paths over r and s in a table")
    given = parser.parse_args()
    if given.engine == "dynq":
        if not given.stored:
            kept(given.shape, 60_000, given.epsilon)
        found = kept(given.shape, given.edges, given.epsilon, listing=given.listing, stored=given.stored)
    else:
        found = recounted(given.shape, given.edges)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


if __name__ == "__main__":
    main()
