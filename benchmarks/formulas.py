"""Group `formulas`: what a change costs as a graph of bounded degree grows, and what products without a table save."""

from __future__ import annotations

from processes import interleaved, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "Formulas"
DEGREE, PAIRED = 8, 1001
GROWING = ("one way", "two ways out", "even", "no triangle", "far")


def measure(settings: Settings) -> Section:
    sizes = (settings.rows // 10, settings.rows)
    jobs = {f"{name} {n}": script("run_formulas.py", name, n, DEGREE) for name in GROWING for n in sizes}
    jobs["pairs"] = script("run_formulas.py", "pairs", PAIRED, DEGREE)
    jobs["pairs stored"] = script("run_formulas.py", "pairs", PAIRED, DEGREE, "--stored")
    measured = interleaved(jobs, settings.runs)
    rows = []
    for name in GROWING:
        few, more = (measured[f"{name} {n}"] for n in sizes)
        cells = [seconds(few["seconds"]), seconds(more["seconds"]), times(more["seconds"], few["seconds"])]
        rows.append([name, *cells, f"{more['bytes'] / sizes[1]:,.0f} B"])
    read, stored = measured["pairs"], measured["pairs stored"]
    kept, table = (f"{each['bytes'] / 1e6:.1f} MB" for each in (read, stored))
    says = (
        f"Rules of `benchmarks/run_formulas.py` over a random graph with `max_degree: {DEGREE}`: processor time per\n"
        f"change of a link, one per commit, with {many(sizes[0])} nodes and with {many(sizes[1])}; and bytes of the\n"
        f"state per node. Median of {settings.runs}. Pairs without a link among {many(PAIRED)} nodes,\n"
        f"{many(read['rows'])} rows: the state has {kept}; with the rows in a table, for an order, {table}, which is\n"
        f"{times(stored['bytes'], read['bytes'])}, and a change takes {seconds(stored['seconds'])} instead of\n"
        f"{seconds(read['seconds'])}."
    )
    header = ("", f"{many(sizes[0])} nodes", f"{many(sizes[1])} nodes", "ratio", "state per node")
    return Section(TITLE, says, header, rows)
