"""Group `ranked`: rows by position in an order, what keeping it costs, and differences."""

from __future__ import annotations

from processes import interleaved, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "Orders and differences"
PER_KEY, LARGE = 100, 1000
COMMITS = {10_000: "commits of 10,000", 100: "commits of 100", 1: "commits of one change"}
READ = {
    "jth": "row at a position, in codes",
    "rank": "position of a row, in codes",
    "together": "row at a position, 500 at once",
    "jth_arrow": "row at a position, as Arrow",
    "rank_values": "position of a row, from values",
    "page": "a row of a page of 100,000, as Arrow",
}


def measure(settings: Settings) -> Section:
    small, large = (settings.own_logs("star", n, LARGE) for n in (settings.rows // 10, settings.rows))
    usual = settings.own_logs("star", settings.rows, PER_KEY)
    jobs = {
        "positions, a tenth": script("run_ranked.py", "positions", small),
        "positions": script("run_ranked.py", "positions", large),
        "updates": script("run_ranked.py", "updates", usual),
        "difference": script("run_ranked.py", "diff", usual),
        "difference, result ×100": script("run_ranked.py", "diff", large),
    }
    found = interleaved(jobs, settings.runs)
    rows = []
    first, second = found["positions, a tenth"], found["positions"]
    for key, what in READ.items():
        rows.append([what, *(seconds(each[key] / 1e6) for each in (first, second)), times(second[key], first[key])])
    changes = found["updates"]
    for batch, what in COMMITS.items():
        plain, ordered = 1 / changes[f"plain_{batch}"], 1 / changes[f"ordered_{batch}"]
        what = f"a change without and with order_by, {what}"
        rows.append([what, seconds(plain), seconds(ordered), times(ordered, plain)])
    one, other = found["difference"], found["difference, result ×100"]
    few, more = one["few_s"], other["few_s"]
    rows.append(["difference of 100 changes, result ×100", seconds(few), seconds(more), times(more, few)])
    enum, diff = 1 / one["enum_per_s"], 1 / one["diff_per_s"]
    rows.append(["a row of an enumeration and of a difference", seconds(enum), seconds(diff), times(diff, enum)])
    says = (
        f"The star with 10 % deletes. By position: a result of {many(first['rows'])} rows over\n"
        f"{many(settings.rows // 10)} base rows, then of {many(second['rows'])} over {many(settings.rows)},\n"
        "ordered by all columns; rows are asked for one at a time unless said otherwise. Differences go back from the\n"
        "version after the changes, which is part of their time. Processor time, of changes wall time; median of\n"
        f"{settings.runs}."
    )
    return Section(TITLE, says, ("", "first", "second", "second ÷ first"), rows)
