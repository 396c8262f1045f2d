"""Rows by position in an ordered result, and what keeping the order costs; prints one JSON object.

    python benchmarks/run_ranked.py positions DIR     microseconds per row: by position, position of a row, page
    python benchmarks/run_ranked.py updates DIR       changes a second, of the workload without and with the order
    python benchmarks/run_ranked.py diff DIR          rows a second of a difference, and of the enumeration beside it

DIR is a workload `star`. Positions are asked for one at a time, in codes (as the engine has them) and as Arrow. All
times are of the process, the best of several rounds: no time has a compilation in it.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from logs import logs_in, slices
from run_engine import LOAD_BATCH, QUERY, replay, reversed_of

from dynq_cli.engine.net_delta import plain_net_delta
from dynq_cli.engine.positions import Selection
from dynq_cli.engine.ranked import Ranked
from dynq_cli.engine.versions import diff, went_back
from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec

ORDER = "    order_by: [s, o, l, n, p]\n"
ASKED, ROUNDS, PAGE = 500, 20, 100_000
FEW, MANY = 100, 1000


def opened(folder: Path, ordered: bool) -> Views:
    planned = plan_spec((folder / "spec.yaml").read_text("utf-8") + (ORDER if ordered else ""))
    return Views(planned.spec, planned.kept)


def loaded(folder: Path, ordered: bool) -> Views:
    live = opened(folder, ordered)
    for log in logs_in(folder):
        for commit in slices(log.relation, log.table(), LOAD_BATCH):
            live.apply(commit)
    return live


def warm(folder: Path, ordered: bool) -> None:
    """Meet every kernel once: inserts, deletes, growth, and the kernels for positions."""
    live = opened(folder, ordered)
    for log in logs_in(folder):
        if log.chunk == 0:
            table = log.table()[:64]
            live.apply({log.relation: table})
            live.apply({log.relation: reversed_of(table)})


def microseconds(action: Callable[[Any], object], asked: Iterable[Any]) -> float:
    """Per item, in the best of some rounds."""
    items, best = list(asked), float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for item in items:
            action(item)
        best = min(best, time.process_time() - start)
    return best / len(items) * 1e6


def positions(folder: Path) -> dict[str, float]:
    live = loaded(folder, ordered=True)
    many, variables = live.count(QUERY)[0], live.variables(QUERY)
    chance = Random(1)
    asked = [chance.randint(1, many) for _ in range(ASKED)]
    selection, ranked = Selection(live.engine, QUERY, variables), Ranked(live, QUERY)
    codes = [dict(zip(variables, selection.at([j])[:, 0].tolist(), strict=True)) for j in asked]
    rows = [next(ranked.jth([j])).to_pylist()[0] for j in asked]
    start = time.process_time()
    read = sum(len(batch) for batch in ranked.page(many // 2, PAGE))
    page = (time.process_time() - start) / max(1, read) * 1e6
    return {
        "rows": many,
        "jth": microseconds(lambda j: selection.at([j]), asked),
        "rank": microseconds(selection.find, codes),
        "together": microseconds(selection.at, [asked]) / ASKED,
        "jth_arrow": microseconds(lambda j: next(ranked.jth([j])), asked),
        "rank_values": microseconds(ranked.rank, rows),
        "page": page,
    }


def updates(folder: Path) -> dict[str, float]:
    found = {}
    for name, ordered in (("plain", False), ("ordered", True)):
        warm(folder, ordered)
        for batch in (LOAD_BATCH, 100):
            live = opened(folder, ordered)
            changes, _, spent = replay(live, logs_in(folder), batch)
            found[f"{name}_{batch}"] = changes / spent
        changes, _, spent = replay(opened(folder, ordered), logs_in(folder), 0, True)
        found[f"{name}_1"] = changes / spent
    return found


def _of_new_keys(keys: int, n: int, p: int) -> tuple[dict[str, pa.Table], pa.Table]:
    """Rows of S and P with keys that nobody has, and one row of L for each of these."""
    s = [-1 - key for key in range(keys)]
    partners = {
        "S": pa.table({"s": s * n, "n": [i for i in range(n) for _ in s]}),
        "P": pa.table({"s": s * p, "p": [i for i in range(p) for _ in s]}),
    }
    return partners, pa.table({"s": s, "o": s, "l": s})


def _difference(folder: Path, keys: int, n: int, p: int) -> tuple[Views, int, float]:
    """The engine after rows of L came, the rows of the difference they make, and seconds to find it."""
    partners, came = _of_new_keys(keys, n, p)
    new, again = loaded(folder, False), loaded(folder, False)
    for live in (new, again):
        live.apply(partners)
    nets = {"L": plain_net_delta(new.changes({"L": came})["L"])}
    for live in (new, again):
        live.apply({"L": came})
    gc.collect()  # engines of before go now, and not while time is taken
    start = time.process_time()
    old = went_back(lambda: again, nets, QUERY)
    rows = sum(len(part) for part in diff(old, new, QUERY))
    return new, rows, time.process_time() - start


def difference(folder: Path) -> dict[str, float]:
    """The difference of 100 changes, which is the same whatever the result; and rows a second of a large one."""
    _difference(folder, 2, 2, 2)
    # The shortest of some: fresh pages for the marks take some milliseconds, or many.
    found = [_difference(folder, FEW, 1, 29)[1:] for _ in range(3)]
    few, spent = min(found, key=lambda each: each[1])
    live, rows, long = _difference(folder, MANY, 100, 200)
    start, read = time.process_time(), 0
    for part in live.enum(QUERY):
        read += len(part)
        if read >= rows:
            break
    enum = read / (time.process_time() - start)
    return {"result": live.count(QUERY)[0], "few": few, "few_s": spent, "diff_per_s": rows / long, "enum_per_s": enum}


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    measured = {"positions": positions, "updates": updates, "diff": difference}[what](folder)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
