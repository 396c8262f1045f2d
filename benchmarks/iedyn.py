"""Group `iedyn`: the queries of the paper on joins with inequalities, beside DuckDB counting once at the end."""

from __future__ import annotations

from processes import Numbers, interleaved, printed, same_result, say, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "The paper's inequality joins"
# Table 2 of the paper: by query the length of the stream, and the size of the result in thousands of rows.
TABLE_2 = {
    1: (12_000, 18_017),
    2: (12_000, 3.8),
    3: (2_700, 178_847),
    4: (2_700, 90_425),
    5: (21_000, 411_669),
    6: (21_000, 297_873),
    7: (2_700, 114_561),
    8: (21_000, 411_669),
    9: (21_000, 99_043),
    10: (2_700, 114_561),
    11: (21_000, 294_139),
    12: (21_000, 297_873),
}
TIMES = 10
MOST_RUNS = 3
# Seconds after which DuckDB gives up.
LIMIT = 10


def measure(settings: Settings) -> Section:
    runs = min(settings.runs, MOST_RUNS)
    rows = []
    for number, (stream, thousands) in TABLE_2.items():
        rows.append(_row(number, stream, many(1000 * thousands), runs))
        rows.append(_row(number, TIMES * stream, "", runs))
    head = ("", "result rows", "in the paper", "dynq", "temporal ÷ random", "peak", "DuckDB once", "its peak")
    return Section(TITLE, _says(runs), head, rows)


def _row(number: int, size: int, in_the_paper: str, runs: int) -> tuple[str, ...]:
    given, name = ("run_iedyn.py", f"iq{number}", "--stream", size), f"Q{number}, stream of {many(size)}"
    jobs = {"random": script(*given), "temporal": script(*given, "--order", "temporal")}
    kept, temporal = interleaved({f"{name}: {job}": c for job, c in jobs.items()}, runs).values()
    say(f"  {name}: DuckDB")
    duckdb = printed(script(*given, "--engine", "duckdb", "--limit", LIMIT))
    if duckdb["rows"] >= 0:
        same_result(name, {"dynq": kept, "DuckDB": duckdb})
    return (
        name,
        many(kept["rows"]),
        in_the_paper,
        seconds(kept["seconds"]),
        times(temporal["processor"], kept["processor"]),
        f"{kept['peak_mb']:.0f} MB",
        _recomputed(duckdb),
        f"{duckdb['peak_mb']:.0f} MB",
    )


def _recomputed(duckdb: Numbers) -> str:
    return seconds(duckdb["seconds"]) if duckdb["rows"] >= 0 else f"over {LIMIT} s"


def _says(runs: int) -> str:
    return (
        "Streams of insertions, as many rows of each relation, in commits of 1,000: at the sizes of the paper's\n"
        "Table 2, and at ten times those. dynq's time is that of the whole random stream, with the count at hand\n"
        "after every commit, and nothing is enumerated for it; the ratio is one of processor time, for a stream in\n"
        "which compared values only grow. DuckDB counts the random stream's result once, when all rows are there,\n"
        f"with all cores, or gives up after {LIMIT} s. Peaks are those of whole processes. Joined values are uniform\n"
        "in 1 … 200, as in the paper, which does not say from how many the compared ones were drawn; here they are as\n"
        "many as the stream has rows. So drawn, one in 200 of 36 million pairs is joined and every second of these in\n"
        "order: Q2 has 90,000 rows, whatever else is drawn. Q4, Q7 and Q10 are of one join, so are Q5, Q8 and Q11,\n"
        "and Q6, Q9 and Q12, and have as many rows each; where the paper has different sizes for them, its data were\n"
        "different, too. Q10 to Q12 are not free-connex: dynq keeps their count alone, since their rows\n"
        f"would have to be stored. Median of {runs}, DuckDB once."
    )
