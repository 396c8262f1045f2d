"""Group `cycles`: counts of triangles, loaded, changed, and changed at hubs; beside the shorter list, and DuckDB."""

from __future__ import annotations

import math

from processes import Numbers, interleaved, printed, same_result, say, script
from report import Section, Table, many, seconds, times
from settings import Settings

TITLE = "Triangles"
SHAPES = ("uniform", "zipf", "hubs")
EPSILONS = ("0.5", "0.6", "0.75", "1")
MOST_RUNS = 3
STORED = (32_000, 128_000)
# Mixed commits take old edges, too.
LEAST = 10_000
HEAD = (
    "", "load", "mixed", "hub", "hub, shorter list", "ratio", "rows at a hub", "shorter list", "pairs", "state",
    "DuckDB once",
)  # fmt: skip


def measure(settings: Settings) -> Section:
    runs = min(settings.runs, MOST_RUNS)
    sizes = list(dict.fromkeys(max(LEAST, settings.rows // part) for part in (100, 10, 1)))
    rows, hubs = [], []
    for shape in SHAPES:
        for size in sizes:
            found, shorter = _both(shape, size, runs)
            rows.append(_row(shape, size, found, shorter))
            if shape == "hubs":
                hubs.append((size, found, shorter))
    tables = (_dial(sizes[len(sizes) // 2], runs), _beside_stored_pairs(runs))
    return Section(TITLE, _says(runs, hubs), HEAD, rows, tables)


def _both(shape: str, size: int, runs: int) -> tuple[Numbers, Numbers]:
    """With pairs of heavy values, and without."""
    name = f"{shape}, {many(size)} edges"
    jobs = {f"{name}: ε = {e}": script("run_cycles.py", shape, "--edges", size, "--epsilon", e) for e in ("0.5", "1")}
    measured = interleaved(jobs, runs)
    same_result(name, measured)
    found, shorter = measured.values()
    return found, shorter


def _row(shape: str, size: int, found: Numbers, shorter: Numbers) -> tuple[str, ...]:
    name = f"{shape}, {many(size)}"
    say(f"  {name}: DuckDB")
    duckdb = printed(script("run_cycles.py", shape, "--edges", size, "--engine", "duckdb"))
    same_result(name, {"dynq": found, "DuckDB": duckdb})
    return (
        f"{name} edges",
        _micro(found["load_us"]),
        _micro(found["mixed_us"]),
        _micro(found["hub_us"]),
        _micro(shorter["hub_us"]),
        times(found["hub_us"], shorter["hub_us"]),
        many(found["hub_scanned"]),
        many(shorter["hub_scanned"]),
        many(found["pairs"]),
        f"{found['state_mb']:.0f} MB",
        seconds(duckdb["seconds"]),
    )


def _micro(number: float) -> str:
    return seconds(number * 1e-6)


def _dial(size: int, runs: int) -> Table:
    jobs = {e: script("run_cycles.py", "hubs", "--edges", size, "--epsilon", e) for e in EPSILONS}
    rows = [
        (e, _micro(n["load_us"]), _micro(n["mixed_us"]), _micro(n["hub_us"]), many(n["hub_scanned"]), many(n["pairs"]))
        for e, n in interleaved(jobs, runs).items()
    ]
    says = f"The same for `epsilon` from 0.5 to 1, on the graph with hubs and {many(size)} edges:"
    return Table(says, ("epsilon", "load", "mixed", "hub", "rows at a hub", "pairs"), rows)


def _beside_stored_pairs(runs: int) -> Table:
    """The same counts and listings with all paths over two relations in a table, as one plan of trees needs them."""
    jobs = {}
    for size in STORED:
        for name, more in (("count", []), ("listing", ["--listing"])):
            job = script("run_cycles.py", "zipf", "--edges", size, *more)
            jobs[f"{name}, {many(size)} edges"] = job
            jobs[f"{name}, {many(size)} edges stored"] = [*job, "--stored"]
    measured = interleaved(jobs, runs)
    rows = []
    for name, found in measured.items():
        if not name.endswith(" stored"):
            stored = measured[f"{name} stored"]
            same_result(name, {"by delta": found, "stored": stored})
            cells = [f"{found['state_mb']:.0f} MB", times(stored["state_mb"], found["state_mb"])]
            for key in ("load", "hub", "single"):
                cells += [_micro(found[f"{key}_us"]), times(stored[f"{key}_us"], found[f"{key}_us"])]
            rows.append((name, *cells))
    says = (
        "Zipf edges; `÷` is how much more the plan takes that stores the paths over r and s (`changes: rare` for\n"
        "both, `often` for t). `alone`: a commit for each edge between the nodes with the longest lists."
    )
    head = ("", "state", "÷", "load, per edge", "÷", "hub", "÷", "hub, alone", "÷")
    return Table(says, head, rows)


def _says(runs: int, hubs: list[tuple[int, Numbers, Numbers]]) -> str:
    fitted = _exponent([(size, found) for size, found, _ in hubs]), _exponent([(size, n) for size, _, n in hubs])
    return (
        "`count(*)` over r(a, b), s(b, c), t(c, a), a third of the edges in each. Processor time per change: all\n"
        "edges in one commit; mixed, commits of 1,000 changes, half of them deletes; and edges between the five\n"
        "nodes with the longest lists at either end, 25 to a commit, which come and go. `shorter list` is\n"
        "`epsilon: 1`: no pairs are kept, and a change goes through the shorter list. `rows at a hub` are those that\n"
        f"lists gave per change there; with hubs they grow as n^{fitted[0]:.2f}, and as n^{fitted[1]:.2f} without\n"
        f"pairs. Median of {runs}."
    )


def _exponent(hubs: list[tuple[int, Numbers]]) -> float:
    """By which power of the edges the rows that lists give at a hub grow."""
    (least, first), (most, last) = hubs[0], hubs[-1]
    grown = max(1.0, last["hub_scanned"]) / max(1.0, first["hub_scanned"])
    return max(0.0, math.log(grown) / math.log(most / least))
