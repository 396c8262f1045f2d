"""Group `growth`: what a change costs as the data, and as the result, grow."""

from __future__ import annotations

from processes import interleaved, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "Growth"
PER_KEY = 100


def measure(settings: Settings) -> Section:
    tail = settings.rows // 10
    cases = {
        f"{many(settings.rows)} rows": settings.own_logs("star", settings.rows, PER_KEY),
        f"{many(10 * settings.rows)} rows": settings.own_logs("star", 10 * settings.rows, PER_KEY),
        # Ten times as many rows per key in each of three relations, a tenth of the keys.
        f"{many(settings.rows)} rows, result ×100": settings.own_logs("star", settings.rows, 10 * PER_KEY),
    }
    options = ("--batch", 1000, "--tail", tail)
    jobs = {f"star: {name}": script("run_engine.py", folder, *options) for name, folder in cases.items()}
    measured = interleaved(jobs, settings.runs)
    first = next(iter(measured.values()))
    rows = []
    for name, numbers in measured.items():
        cells = [name, many(numbers["result_rows"])]
        for key in ("load_changes_per_s", "changes_per_s"):
            cells += [seconds(1 / numbers[key]), times(first[key], numbers[key])]
        rows.append(cells)
    says = (
        "The star, with 10 % deletes. Time per change while loading nine tenths in commits of 10,000, then of up to\n"
        f"{many(tail)} changes in commits of 1,000, relations mixed; and as times the first line.\n"
        f"Median of {settings.runs}."
    )
    return Section(TITLE, says, ("", "result rows", "loading", "× first", "then", "× first"), rows)
