"""Group `iedyn`: the queries of the paper on joins with inequalities, beside DuckDB counting once at the end."""

from __future__ import annotations

from processes import interleaved, same_result, script
from report import Section, many, seconds
from settings import Settings

TITLE = "The paper's inequality joins"
# Table 2 of the paper; its Q10 to Q12 are not free-connex, and their results would be stored.
STREAMS = {1: 12_000, 2: 12_000, 3: 2_700, 4: 2_700, 5: 21_000, 6: 21_000, 7: 2_700, 8: 21_000, 9: 21_000}
TIMES = 10


def measure(settings: Settings) -> Section:
    rows = []
    for number, stream in STREAMS.items():
        for size in (stream, TIMES * stream):
            given = ("run_iedyn.py", f"iq{number}", "--stream", size)
            jobs = {
                "dynq": script(*given),
                "temporal": script(*given, "--order", "temporal"),
                "DuckDB": script(*given, "--engine", "duckdb"),
            }
            measured = interleaved({f"Q{number}, {many(size)}: {job}": c for job, c in jobs.items()}, settings.runs)
            by_job = dict(zip(jobs, measured.values(), strict=True))
            same_result(f"Q{number}", {job: by_job[job] for job in ("dynq", "DuckDB")})
            kept, temporal, duckdb = by_job["dynq"], by_job["temporal"], by_job["DuckDB"]
            rows.append(
                (
                    f"Q{number}, stream of {many(size)}",
                    many(kept["rows"]),
                    seconds(kept["seconds"]),
                    seconds(temporal["seconds"]),
                    f"{kept['peak_mb']:.0f} MB",
                    seconds(duckdb["seconds"]),
                )
            )
    says = (
        "Random and temporal streams of insertions, as many rows of each relation, in commits of 1,000: the sizes of\n"
        "the paper's Table 2, and ten times those. dynq's times are those of the whole stream, with the count at hand\n"
        "after every commit; DuckDB's that of counting the random stream's result once, with all cores. Peak memory\n"
        "is that of the process, libraries included. Q10 to Q12 are not free-connex: their results are stored.\n"
        f"Median of {settings.runs}."
    )
    return Section(TITLE, says, ("", "result rows", "dynq", "temporal", "peak", "DuckDB once"), rows)
