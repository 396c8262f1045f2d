"""Group `iedyn`: the queries of the paper on joins with inequalities, beside DuckDB counting once at the end."""

from __future__ import annotations

from processes import Numbers, interleaved, same_result, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "The paper's inequality joins"
# Table 2 of the paper.
STREAMS = {1: 12_000, 2: 12_000, 3: 2_700, 4: 2_700, 5: 21_000, 6: 21_000, 7: 2_700, 8: 21_000, 9: 21_000}
STREAMS |= {10: 2_700, 11: 21_000, 12: 21_000}
TIMES = 10
# Seconds after which DuckDB gives up.
LIMIT = 60


def measure(settings: Settings) -> Section:
    rows = []
    for number, stream in STREAMS.items():
        for size in (stream, TIMES * stream) if settings.is_long else (stream,):
            rows.append(_row(number, size, settings.runs))
    head = ("", "result rows", "dynq", "temporal", "temporal ÷ random", "peak", "DuckDB once")
    return Section(TITLE, _says(settings), head, rows)


def _row(number: int, size: int, runs: int) -> tuple[str, ...]:
    given = ("run_iedyn.py", f"iq{number}", "--stream", size)
    jobs = {
        "dynq": script(*given),
        "temporal": script(*given, "--order", "temporal"),
        "DuckDB": script(*given, "--engine", "duckdb", "--limit", LIMIT),
    }
    measured = interleaved({f"Q{number}, {many(size)}: {job}": c for job, c in jobs.items()}, runs)
    kept, temporal, duckdb = measured.values()
    if duckdb["rows"] >= 0:
        same_result(f"Q{number}", {"dynq": kept, "DuckDB": duckdb})
    return (
        f"Q{number}, stream of {many(size)}",
        many(kept["rows"]),
        seconds(kept["seconds"]),
        seconds(temporal["seconds"]),
        times(temporal["processor"], kept["processor"]),
        f"{kept['peak_mb']:.0f} MB",
        _recomputed(duckdb),
    )


def _recomputed(duckdb: Numbers) -> str:
    return seconds(duckdb["seconds"]) if duckdb["rows"] >= 0 else f"over {LIMIT} s"


def _says(settings: Settings) -> str:
    sizes = "the sizes of the\npaper's Table 2" + (", and ten times those" if settings.is_long else "")
    return (
        f"Random and temporal streams of insertions, as many rows of each relation, in commits of 1,000: {sizes}.\n"
        "dynq's times are those of the whole stream, with the count at hand after every commit, and nothing is\n"
        "enumerated for it; DuckDB's that of counting the random stream's result once, with all cores. Peak memory is\n"
        "that of the process, libraries included; the ratio is one of processor time. Q10 to Q12 are not free-connex:\n"
        f"dynq keeps their count alone, since their rows would have to be stored. Median of {settings.runs}."
    )
