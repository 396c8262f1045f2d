"""Group `startup`: whole commands of the front end, as ratios against the start of Python."""

from __future__ import annotations

import statistics
import sys
import time

from processes import ROOT, output_of, say
from report import Section
from settings import Settings

TITLE = "Start of the commands"
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


def medians(runs: int) -> dict[str, float]:
    """Median wall time of each command, in seconds; the first round warms the caches and does not count."""
    taken: dict[str, list[float]] = {name: [] for name in commands()}
    for turn in range(runs + 1):
        say(f"  {turn}/{runs} commands")
        for name, command in commands().items():
            start = time.perf_counter()
            output_of(command)
            if turn:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def measure(settings: Settings) -> Section:
    found = medians(settings.startup_runs)
    head = ("command", "median, ms", f"times `{YARDSTICK}`", f"times `{SECOND}`")
    rows = [
        (f"`{name}`", f"{median * 1000:.0f}", f"{median / found[YARDSTICK]:.1f}", f"{median / found[SECOND]:.1f}")
        for name, median in found.items()
    ]
    says = f"Whole commands, the start of the interpreter included; median of {settings.startup_runs}."
    return Section(TITLE, says, head, rows)
