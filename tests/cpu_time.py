"""Where the time of a test run goes: CPU seconds by directory, of the tests' processes and of what they start.

CPU time says what a test costs whatever else the machine does; the clock does not.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

TICKS = os.sysconf("SC_CLK_TCK")
LARGEST = 15
"""How many single tests are listed below the directories."""
LEAST = 60
"""Seconds: shorter runs end without a summary.

DYNQ_CPU_TIMES names a file to which the seconds of every test are added.
"""


def processes_below(process: str) -> list[str]:
    """The children of a process that run; none where the system does not tell."""
    try:
        return [
            child
            for task in Path("/proc", process, "task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def seconds_of(process: str) -> float:
    """CPU seconds of a process that runs, of those that it has waited for, and of its children that run."""
    try:
        fields = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(map(seconds_of, processes_below(process)))


def cpu_seconds() -> float:
    """CPU seconds of this process and of all that it has started, as far as the system tells."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(map(seconds_of, processes_below("self")))


class CpuTime:
    """A plugin of pytest: measures each test in the process that runs it, and sums up where the summary is written."""

    def __init__(self) -> None:
        self._began = 0.0
        self._tests: dict[str, float] = {}
        # Taken out of the environment: tests that run pytest must not write there, too.
        self._file = os.environ.pop("DYNQ_CPU_TIMES", None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        self._began = cpu_seconds()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            report.user_properties.append(("cpu seconds", max(0.0, cpu_seconds() - self._began)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            spent = float(str(dict(report.user_properties).get("cpu seconds", 0.0)))
            self._tests[report.nodeid] = spent
            if self._file:
                with open(self._file, "a", encoding="utf-8") as file:
                    file.write(f"{spent:.3f}\t{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if sum(self._tests.values()) > LEAST:
            terminalreporter.section("CPU seconds")
            for line in summary(self._tests):
                terminalreporter.write_line(line)


def summary(tests: dict[str, float]) -> list[str]:
    """CPU seconds by directory with the number of tests, then the tests that took most."""
    seconds: defaultdict[str, float] = defaultdict(float)
    number: Counter[str] = Counter()
    for name, spent in tests.items():
        directory = "/".join(Path(name.partition("::")[0]).parent.parts[:2]) or "."
        directory = "dynq_cli (examples in docstrings)" if directory.startswith("dynq_cli") else directory
        seconds[directory] += spent
        number[directory] += 1
    lines = [
        f"{spent:9.1f}  {directory}: {number[directory]} tests"
        for directory, spent in sorted(seconds.items(), key=_by_seconds)
    ]
    lines.append(f"{sum(seconds.values()):9.1f}  all {len(tests)} tests; the largest:")
    return lines + [f"{spent:9.1f}  {name}" for name, spent in sorted(tests.items(), key=_by_seconds)[:LARGEST]]


def _by_seconds(entry: tuple[str, float]) -> float:
    return -entry[1]
