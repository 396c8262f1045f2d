"""Every measurement is a process of its own, and the processes of a comparison take turns.

    interleaved(jobs, runs)[name] = the median of each number that the job printed, over `runs` rounds

A round runs every job once, so a slow moment of the machine meets all of them. A job prints one JSON object
as its last line. This module and what imports it stay small on purpose (no numpy, no pyarrow): on Linux
a child's peak memory is never reported below what its parent had when it was started.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
# Compiled modules are kept, as they are wherever nobody forbids it.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPATH": str(ROOT)}

Numbers = Mapping[str, float]


class BenchmarkError(Exception):
    """A measurement that failed, or two that disagree about the result."""


def script(name: str, *arguments: object) -> list[str]:
    """The command that runs a script of this directory."""
    return [sys.executable, str(HERE / name), *map(str, arguments)]


@dataclass(frozen=True)
class Run:
    """What a whole process took, its start included, and printed."""

    seconds: float
    peak_mb: float
    output: str


def run_of(command: Sequence[str]) -> Run:
    """Run a command by itself. Raises BenchmarkError with its complaint if it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as complaint:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=out, stderr=complaint)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        complaint.seek(0)
        if process.returncode:
            raise BenchmarkError(f"{' '.join(command)} ended with {process.returncode}:\n{complaint.read().strip()}")
        return Run(seconds, usage.ru_maxrss / 1024, out.read())


def output_of(command: Sequence[str]) -> str:
    """Run a command; what it printed. Raises BenchmarkError with its complaint if it fails."""
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def printed(command: Sequence[str]) -> Numbers:
    """The numbers that a command printed as its last line."""
    numbers = json.loads(output_of(command).splitlines()[-1])
    return {name: value for name, value in numbers.items() if isinstance(value, int | float)}


def interleaved(jobs: Mapping[str, Sequence[str]], runs: int) -> dict[str, Numbers]:
    """Run all jobs one after the other, `runs` times over; medians."""
    rounds: dict[str, list[Numbers]] = {name: [] for name in jobs}
    for turn in range(runs):
        for name, command in jobs.items():
            say(f"  {turn + 1}/{runs} {name}")
            rounds[name].append(printed(command))
    return {name: _medians(several) for name, several in rounds.items()}


def _medians(several: Sequence[Numbers]) -> Numbers:
    return {key: statistics.median(numbers[key] for numbers in several) for key in several[0]}


def same_result(what: str, measured: Mapping[str, Numbers]) -> None:
    """Stop unless all jobs that counted the result counted the same: a wrong answer has no speed."""
    counts = {name: int(numbers["rows"]) for name, numbers in measured.items() if "rows" in numbers}
    if len(set(counts.values())) > 1:
        raise BenchmarkError(f"{what}: the results differ: {counts}")


def say(line: str) -> None:
    """Progress, apart from the results."""
    print(line, file=sys.stderr, flush=True)
