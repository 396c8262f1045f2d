"""Measure, print ratios, and keep them in benchmarks/RESULTS.md.

    python benchmarks/run.py [GROUP...] [--rows N] [--runs R] [--quick] [--yardsticks DIR] [--write]

    startup      whole commands of the front end against the start of Python
    updates      changes a second by size of commit, enumeration; against hand-written triggers in dicts
    small        commits of one change and of 1,000, all relations shuffled, beside large commits
    recompute    the count brought up to date, beside DuckDB computing it again
    payoff       when dynq pays off: time, memory and disk beside DuckDB, as commands and in a process that stays
    growth       what a change costs with ten times the data, and with a hundred times the result
    dependants   one change that touches every row
    skeleton     commits to a state on disk, by commands and in one process, against the dicts
    commands     whole commands: apply of a stream, count, enum to a file; against the dicts, --help, pyarrow
    write        rows to a Parquet file, beside pyarrow's writer and DuckDB's COPY
    cron         many small applies in a row, on a small and on a large state
    serve        durable posts and counts over HTTP with 20 readers, beside the disk's fsync
    tpch         the papers' TPC-H queries, beside DuckDB computing them again
    tpcds        the papers' TPC-DS queries, likewise
    inequalities joins by comparisons, against sorted lists, and as the data grow
    iedyn        the papers' joins with inequalities, beside DuckDB counting once
    cycles       counts of triangles, also at hubs, beside the shorter list and DuckDB counting again
    formulas     rules over graphs of bounded degree as they grow; pairs that are never stored
    ranked       rows by position in an order, what it costs, differences
    models       a regression over a join kept under single changes, beside joining and fitting again
    memory       peak memory against the dicts, at five times the rows; bytes of state per row
    extract      the difference of two snapshots on Spark, beside the join of their keys
    peers        Pathway, PyFlink and DuckDB beside dynq; installs the first two, so only by `make bench-peers`

All others by default, in this order; each is a file here. The files `run_*.py` are the processes that are measured.
`--write` replaces the sections of the groups that were measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import commands
import cron
import cycles
import dependants
import extract
import formulas
import growth
import iedyn
import inequalities
import memory
import models
import payoff
import peers
import ranked
import recompute
import serve
import skeleton
import small
import sql_queries
import startup
import tpcds_queries
import tpch_queries
import updates
import write
from processes import HERE, BenchmarkError, say
from report import BUSY, Section, machine, write_sections
from settings import Settings
from yardstick import BESIDE, find_yardsticks

RESULTS = HERE / "RESULTS.md"
ROWS, RUNS, STARTUP_RUNS = 1_000_000, 5, 9
QUICK_ROWS, QUICK_RUNS, QUICK_STARTUP_RUNS = 50_000, 1, 3
GROUPS: dict[str, tuple[str, Callable[[Settings], Section]]] = {
    "startup": (startup.TITLE, startup.measure),
    "updates": (updates.TITLE, updates.measure),
    "small": (small.TITLE, small.measure),
    "recompute": (recompute.TITLE, recompute.measure),
    "payoff": (payoff.TITLE, payoff.measure),
    "growth": (growth.TITLE, growth.measure),
    "dependants": (dependants.TITLE, dependants.measure),
    "skeleton": (skeleton.TITLE, skeleton.measure),
    "commands": (commands.TITLE, commands.measure),
    "write": (write.TITLE, write.measure),
    "cron": (cron.TITLE, cron.measure),
    "serve": (serve.TITLE, serve.measure),
    "tpch": (tpch_queries.TITLE, tpch_queries.measure),
    "tpcds": (tpcds_queries.TITLE, tpcds_queries.measure),
    "sql": (sql_queries.TITLE, sql_queries.measure),
    "inequalities": (inequalities.TITLE, inequalities.measure),
    "iedyn": (iedyn.TITLE, iedyn.measure),
    "cycles": (cycles.TITLE, cycles.measure),
    "formulas": (formulas.TITLE, formulas.measure),
    "ranked": (ranked.TITLE, ranked.measure),
    "models": (models.TITLE, models.measure),
    "memory": (memory.TITLE, memory.measure),
    "extract": (extract.TITLE, extract.measure),
    "peers": (peers.TITLE, peers.measure),
}

# What is measured only when it is asked for.
ASKED_FOR = ("peers",)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(GROUPS)}; all but peers by default")
    parser.add_argument("--rows", type=int, help=f"inserts per workload, {ROWS} by default")
    parser.add_argument("--runs", type=int, help=f"rounds of which the median is shown, {RUNS} by default")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows and {QUICK_RUNS} run")
    parser.add_argument("--yardsticks", type=Path, metavar="DIR", help="where streams.py and dict_triggers.py are")
    parser.add_argument("--write", action="store_true", help="replace the measured sections of RESULTS.md")
    given = parser.parse_args()
    for name in given.groups:
        if name not in GROUPS:
            parser.error(f"no group {name}; there is {', '.join(GROUPS)}")
    if given.rows is not None and given.rows < 1000:
        parser.error(f"--rows {given.rows} is too few to measure anything; write 1000 or more")
    if given.runs is not None and given.runs < 1:
        parser.error(f"--runs {given.runs}: write 1 or more")
    return given


def settings_of(given: argparse.Namespace, data: Path) -> Settings:
    rows, runs, startup_runs = (
        (QUICK_ROWS, QUICK_RUNS, QUICK_STARTUP_RUNS) if given.quick else (ROWS, RUNS, STARTUP_RUNS)
    )
    yardsticks = find_yardsticks(given.yardsticks)
    if yardsticks is None:
        say(f"no yardsticks at {os.path.relpath(BESIDE, HERE.parent)}: no ratios against the dicts")
    return Settings(given.rows or rows, given.runs or runs, given.runs or startup_runs, yardsticks, data)


def command_for(group: str, given: argparse.Namespace) -> str:
    """How to repeat one group; the options that change its numbers."""
    if group in ASKED_FOR:
        return f"make bench-{group}"
    words = [group]
    words += ["--quick"] if given.quick else []
    words += ["--rows", str(given.rows)] if given.rows else []
    words += ["--runs", str(given.runs)] if given.runs else []
    return f'make bench BENCH="{" ".join(words)}"'


def measure_groups(given: argparse.Namespace) -> None:
    names = given.groups or [name for name in GROUPS if name not in ASKED_FOR]
    with tempfile.TemporaryDirectory(prefix="dynq-bench-") as data:
        settings = settings_of(given, Path(data))
        load = os.getloadavg()[0]
        if load > BUSY:
            say(f"the machine is busy (load {load:.1f}): ratios hold roughly, times do not")
        for name in names:
            say(name)
            title, measure = GROUPS[name]
            text = measure(settings).text(command_for(name, given), machine(load))
            print(text, flush=True)
            if given.write:
                write_sections(RESULTS, {title: text}, [known for known, _ in GROUPS.values()])


def main() -> int:
    try:
        measure_groups(arguments())
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
