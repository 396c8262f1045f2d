"""Group `tpch`: the papers' TPC-H queries (`tpc_queries`)."""

from __future__ import annotations

import tpc_queries
from report import Section
from settings import Settings

TITLE = "TPC-H"
_PAPER = """

For orientation, the paper's engine (SIGMOD 2017, section 5.3; Scala, one insert at a time, a Core i7 at
3.07 GHz): FQ1 to FQ5 took 29.85 s and 2.74 GB on average, for 4.24 million tuples on average (its Table
1), which is 0.14 M/s. Its Figure 4 gives every other query as a percentage of DBToaster's time and memory,
with DBToaster's own numbers above the bars. Every update of the paper is a single tuple, with all relations
shuffled together; the commits here are larger, and single-tuple commits of mixed relations are slower."""


def measure(settings: Settings) -> Section:
    return tpc_queries.measure(tpc_queries.Queries(TITLE, "tpch", "run_tpch.py", _PAPER), settings)
