"""Run the TPC-DS stream of one spec through the engine, and print what it took as one JSON object.

    python benchmarks/run_tpcds.py SPEC FOLDER [--scale S] [--chunks N] [--check | --duckdb]

As `run_tpch.py`, with other tables.
"""

from __future__ import annotations

import as_command  # noqa: F401  before Arrow
import tpcds
from run_tpch import main

if __name__ == "__main__":
    main(tpcds)
