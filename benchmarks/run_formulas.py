"""One formula over a random graph of bounded degree: bytes of its state, and processor time per change.

    python benchmarks/run_formulas.py FORMULA NODES DEGREE [--stored]

`--stored` asks for an order that no tree has, so that the rows are kept in a table. Changes come one per commit.
"""

from __future__ import annotations

import argparse
import json
import random
import time

import pyarrow as pa
from state_size import state_bytes

from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec

FORMULAS = {
    "pairs": "q(x, y) := node(x) and node(y) and not link(x, y)",
    "wedges": "q(x, y, z) := link(x, y) and link(y, z) and not link(x, z)",
    "one way": "q(x, y) := link(x, y) and not link(y, x)",
    "two ways out": "q(x) := node(x) and not exists>=2 y: link(x, y)",
    "even": "q(y) := exists[0 mod 2] x: link(x, y)",
    "no triangle": "q(x, y) := link(x, y) and not exists z: link(y, z) and link(z, x)",
    "far": "q(x) := node(x) and exists>=2 y: node(y) and not link(x, y)",
}
SPEC = """
version: 1
relations:
  node: {{columns: {{v: int64}}}}
  link: {{columns: {{a: int64, b: int64}}, max_degree: {degree}}}
queries:
  q: {{formula: "{formula}"{order}}}
"""
CHANGES = 4000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("formula", choices=FORMULAS)
    parser.add_argument("nodes", type=int)
    parser.add_argument("degree", type=int)
    parser.add_argument("--stored", action="store_true")
    given = parser.parse_args()
    order = ", order_by: [y, x], max_view_rows: 1000000000" if given.stored else ""
    planned = plan_spec(SPEC.format(degree=given.degree, formula=FORMULAS[given.formula], order=order))
    live = Views(planned.spec, planned.kept)
    chance, many = random.Random(1), given.nodes
    starts, ends = list(range(many)) * (given.degree // 2), []
    for _ in range(given.degree // 2):
        ends += chance.sample(range(many), many)
    links = sorted(set(zip(starts, ends, strict=True)))
    live.apply({"node": pa.table({"v": range(many)}), "link": _table(links)})
    some = [links[i] for i in chance.sample(range(len(links)), CHANGES // 2)]
    # A link goes and comes back.
    changes = [(kind, *link) for link in some for kind in ("delete", "insert")]
    table = pa.table(
        {"_change_type": [c[0] for c in changes], "a": [c[1] for c in changes], "b": [c[2] for c in changes]}
    )
    taken = []
    for _ in range(2):
        began = time.process_time()
        live.apply_commits("link", table, range(1, len(changes) + 1))
        taken.append((time.process_time() - began) / len(changes))
    print(
        json.dumps({"rows": live.count("q")[0], "bytes": state_bytes(live), "seconds": min(taken), "links": len(links)})
    )


def _table(links: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"a": [a for a, _ in links], "b": [b for _, b in links]})


if __name__ == "__main__":
    main()
