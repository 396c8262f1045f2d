"""Run a stream of small commits of shuffled relations through the engine, and print what it took as one JSON object.

    python benchmarks/run_small.py SPEC FOLDER [--scale S] [--size N] [--large]

Changes are Arrow tables in memory, and are turned into codes and applied in one go (`apply_mixed`). With `--large` the
same rows come in ten commits and a fifth as many of deletes and updates, each with a share of every relation.
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

CHUNKS = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    spec = load_spec(asked.spec)
    tables = tpcds if asked.spec.parent.name == "tpcds" else tpch
    data = tables.generated(asked.folder, asked.scale)
    given = stream(spec, lambda relation: tables.table_of(relation, data), CHUNKS)
    warm(spec, given.commits)
    rows, ends = shuffled(given, asked.size)
    first = opened(spec)
    first.apply_mixed({n: t.slice(0, 1) for n, t in rows.items()}, {n: np.array([1]) for n in rows})
    live = opened(spec)
    start = time.process_time()
    if asked.large:
        for commit in given.commits:
            live.apply(commit)
    else:
        live.apply_mixed(rows, ends)
    worked = time.process_time() - start
    (query,) = live.queries
    commits = len(given.commits) if asked.large else len(next(iter(ends.values())))
    print(
        json.dumps(
            {
                "changes": given.changes,
                "commits": commits,
                "changes_per_cpu_s": given.changes / worked,
                "rows": live.count(query)[0],
            }
        )
    )


if __name__ == "__main__":
    main()
