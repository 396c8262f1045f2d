"""Group `tpcds`: the papers' TPC-DS queries (`tpc_queries`)."""

from __future__ import annotations

import tpc_queries
from environments import CannotInstallError, install
from processes import BenchmarkError
from report import Section
from settings import Settings

TITLE = "TPC-DS"


def measure(settings: Settings) -> Section:
    try:
        install("tpcds")
    except CannotInstallError as error:
        raise BenchmarkError(f"no TPC-DS without its generator: {error}") from error
    return tpc_queries.measure(tpc_queries.Queries(TITLE, "tpcds", "run_tpcds.py"), settings)
