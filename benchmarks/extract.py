"""Group `extract`: the difference of two snapshots on Spark, beside the least that any difference has to do."""

from __future__ import annotations

from processes import printed, say, script
from report import Section, many, rate, seconds, times
from settings import Settings

TITLE = "Extraction on Spark"
TWICE = 2  # the table is twice as large as those of other groups
CORES = 2


def measure(settings: Settings) -> Section:
    rows = TWICE * settings.rows
    say(f"  {settings.runs} turns on {many(rows)} rows, in one Spark session")
    numbers = printed(script("run_extract.py", settings.data / "extract", rows, settings.runs, CORES))
    mine, plain = numbers["extract_s"], numbers["join_s"]
    says = (
        f"`extract snapshot` of a table with six columns and 1 % changes, on `local[{CORES}]`, beside a Spark job\n"
        "that reads the keys of both snapshots and counts their inner join. Taking turns in one warm session; wall\n"
        f"time without the start of Spark, median of {settings.runs}. A difference has to bring together all columns,\n"
        "which that job spares itself: the last row is the same join with all columns compared."
    )
    table = [
        (f"extract snapshot: {many(rows)} rows", seconds(mine), rate(rows / mine), times(mine, plain)),
        ("plain: count the join of the keys", seconds(plain), rate(rows / plain), times(plain, plain)),
        (
            "plain: compare all columns over the join",
            seconds(numbers["compare_s"]),
            rate(rows / numbers["compare_s"]),
            times(numbers["compare_s"], plain),
        ),
    ]
    return Section(TITLE, says, ("", "time", "rows of a snapshot", "÷ plain"), table)
