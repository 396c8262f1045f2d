"""Group `small`: commits of one change and of 1,000, all relations shuffled, beside large commits of the same rows."""

from __future__ import annotations

from processes import HERE, interleaved, script
from report import Section, many, rate, times
from settings import Settings

TITLE = "Small commits"
SCALE, QUICK_SCALE, QUICK_RUNS, MOST_RUNS = 0.05, 0.01, 1, 3
_HEAD = ("", "changes", "commits of 1", "÷ large", "commits of 1,000", "÷ large", "large commits")


def measure(settings: Settings) -> Section:
    scale = QUICK_SCALE if settings.runs == QUICK_RUNS else SCALE
    runs, rows = min(settings.runs, MOST_RUNS), []
    for spec in sorted((HERE.parent / "specs" / "tpch").glob("*.yaml")):
        run = script("run_small.py", spec, settings.data, "--scale", scale)
        (found,) = interleaved({spec.stem: run}, runs).values()
        rates = [found[f"per_cpu_s_{which}"] for which in (1, 1000, "large")]
        assert found["rows_1"] == found["rows_1000"] == found["rows_large"], spec
        cells = (rate(rates[0]), times(rates[0], rates[2]), rate(rates[1]), times(rates[1], rates[2]), rate(rates[2]))
        rows.append((spec.stem, many(found["changes"]), *cells))
    return Section(TITLE, _says(scale, runs), _HEAD, rows)


def _says(scale: float, runs: int) -> str:
    return (
        f"The papers' protocol on TPC-H at scale {scale:g}: the rows of all relations of a query, shuffled together,\n"
        "are inserted; then a fifth of them are deleted or updated, shuffled likewise. Every row and every update is\n"
        "a commit of its own, or 1,000 of them are one. Large commits have a tenth of every relation. Changes per CPU\n"
        f"second, Arrow tables in (a table per relation), state updated. Median of {runs}."
    )
