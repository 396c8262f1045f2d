"""Run streams of small commits of shuffled relations through the engine, and print what they took as one JSON object.

    python benchmarks/run_small.py SPEC FOLDER [--scale S]

Changes are Arrow tables in memory, and are turned into codes and applied in one go (`apply_mixed`): each a commit of
its own, or 1,000 a commit. Then the same rows come in ten commits and a fifth as many of deletes and updates, each
with a share of every relation. Each stream has an engine of its own.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import as_command  # noqa: F401  before Arrow
import numpy as np
import tpcds
import tpch
from run_tpch import opened, warm
from shuffled import shuffled
from stream import stream

from dynq_cli.spec.load import load_spec

CHUNKS, THOUSAND = 10, 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.1)
    asked = parser.parse_args()
    spec = load_spec(asked.spec)
    tables = tpcds if asked.spec.parent.name == "tpcds" else tpch
    data = tables.generated(asked.folder, asked.scale)
    given = stream(spec, lambda relation: tables.table_of(relation, data), CHUNKS)
    warm(spec, given.commits)
    found: dict[str, float] = {"changes": given.changes}
    for size in (1, THOUSAND):
        rows, ends = shuffled(given, size)
        first = opened(spec)
        first.apply_mixed({n: t.slice(0, 1) for n, t in rows.items()}, {n: np.array([1]) for n in rows})
        live = opened(spec)
        start = time.process_time()
        live.apply_mixed(rows, ends)
        found[f"per_cpu_s_{size}"] = given.changes / (time.process_time() - start)
        found[f"rows_{size}"] = live.count(next(iter(live.queries)))[0]
    live = opened(spec)
    start = time.process_time()
    for commit in given.commits:
        live.apply(commit)
    found["per_cpu_s_large"] = given.changes / (time.process_time() - start)
    found["rows_large"] = live.count(next(iter(live.queries)))[0]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
