"""How quick the front end is: whole commands, as ratios against the start of Python in the same run.

    python benchmarks/run.py [-n RUNS]

Every command is run in turn, RUNS times over, so that a slow moment of the machine meets all of
them; the table has the medians. It is printed and written to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PYTHON = [sys.executable]
DYNQ = [sys.executable, "-m", "dynq_cli"]
YARDSTICK = "python -c pass"
SECOND = 'python -c "import typer"'


def commands() -> dict[str, list[str]]:
    specs = sorted((ROOT / "specs").glob("*.yaml")) + sorted((ROOT / "specs" / "tpch").glob("q3.yaml"))
    return {
        YARDSTICK: [*PYTHON, "-c", "pass"],
        SECOND: [*PYTHON, "-c", "import typer"],
        "dynq --help": [*DYNQ, "--help"],
        "dynq explain --help": [*DYNQ, "explain", "--help"],
        **{f"dynq explain {spec.relative_to(ROOT)}": [*DYNQ, "explain", str(spec.relative_to(ROOT))] for spec in specs},
        "dynq infer sample_data/shop/day-0": [*DYNQ, "--quiet", "infer", "sample_data/shop/day-0"],
    }


def measure(runs: int) -> dict[str, float]:
    """Median wall time of each command, in seconds; the first round warms the caches and does not count."""
    times: dict[str, list[float]] = {name: [] for name in commands()}
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for round_ in range(runs + 1):
        for name, command in commands().items():
            start = time.perf_counter()
            subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=True)
            if round_:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def table(medians: dict[str, float]) -> str:
    lines = [
        f"| command | median, ms | times `{YARDSTICK}` | times `{SECOND}` |",
        "|---|---:|---:|---:|",
    ]
    for name, median in medians.items():
        ratios = (median / medians[YARDSTICK], median / medians[SECOND])
        lines.append(f"| `{name}` | {median * 1000:.0f} | {ratios[0]:.1f} | {ratios[1]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--runs", type=int, default=9, metavar="RUNS")
    runs = parser.parse_args().runs
    result = table(measure(runs))
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    RESULTS.write_text(
        "# Benchmarks\n\n"
        "How quick the front end is: whole commands, start of the interpreter included, as ratios against yardsticks\n"
        f"of the same run; medians of {runs} runs. Repeat with `make bench`.\n\n"
        f"{result}\n\nMeasured on {machine}.\n",
        "utf-8",
    )
    print(result)


if __name__ == "__main__":
    main()
