"""Tables of measurements, printed and kept in RESULTS.md, one section per group.

Writing a section replaces the one with the same title and leaves the others, so that a part of the
benchmarks can be repeated alone.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.5  # load average from which times are not to be trusted
INTRODUCTION = """\
# Benchmarks

Every table has ratios against a yardstick that was measured in the same run, each measurement in a process of its
own, the processes taking turns; medians. `make bench` repeats all of it and writes this page; each section
names the command for itself alone. Times are wall times and start when the changes are in memory as Arrow tables.

The yardstick of the engine is the same algorithm written by hand for one fixed query, in plain Python dicts, a
row at a time. DuckDB's recomputation, with all cores, stands beside it for scale.
"""


@dataclass(frozen=True)
class Table:
    """Rows under a head, after what they show."""

    says: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """The table as Markdown."""
        rule = ["---", *("---:" for _ in self.head[1:])]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in (self.head, rule, *self.rows))
        return f"{self.says}\n\n{table}\n"


@dataclass(frozen=True)
class Section:
    """One group's table, and maybe more: what it shows, the rows, and how to get it again."""

    title: str
    says: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: Sequence[Table] = ()

    def text(self, command: str, machine: str) -> str:
        """The section as Markdown."""
        tables = "\n".join(table.text() for table in (Table(self.says, self.head, self.rows), *self.more))
        return f"## {self.title}\n\n{tables}\nRepeat with `{command}`. Measured on {machine}.\n"


def machine(load: float) -> str:
    """The machine, without naming it, and whether something else was running when the measurements began."""
    cores, system = os.cpu_count(), f"{platform.system()} {platform.machine()}"
    busy = f", busy with other work (load {load:.1f})" if load > BUSY else ""
    return f"{cores} cores, {system}, Python {platform.python_version()}{busy}"


def write_sections(page: Path, sections: dict[str, str], order: Sequence[str]) -> None:
    """Put sections, by title, into the page; `order` lists all titles that the page may have."""
    kept = {title: body for title, body in _sections_of(page).items() if title in order}
    kept.update(sections)
    page.write_text("\n".join([INTRODUCTION, *(kept[title] for title in order if title in kept)]), "utf-8")


def _sections_of(page: Path) -> dict[str, str]:
    text = page.read_text("utf-8") if page.exists() else ""
    pieces = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {piece.splitlines()[0].removeprefix("## "): piece.rstrip("\n") + "\n" for piece in pieces}


def times(mine: float, yardstick: float | None) -> str:
    """How many times the yardstick; a dash where there is none."""
    if not yardstick:
        return "–"
    ratio = mine / yardstick
    return f"{ratio:.2f}×" if ratio >= 0.1 else f"{ratio:.2g}×"


def rate(per_second: float | None) -> str:
    """A rate in millions or thousands a second, to three digits; a dash where there is none."""
    if not per_second:
        return "–"
    return f"{per_second / 1e6:.3g} M/s" if per_second >= 1e5 else f"{per_second / 1e3:.3g} k/s"


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def many(number: float) -> str:
    """A number of things, with separators."""
    return f"{number:,.0f}"
