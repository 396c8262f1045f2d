"""Group `dependants`: one change that touches every row, against DuckDB computing the count again."""

from __future__ import annotations

from processes import interleaved, same_result, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "One row with many dependants"
STEPS = {"delete_s": "it goes", "insert_s": "it comes", "replace_s": "it is replaced in one commit"}


def measure(settings: Settings) -> Section:
    folder = settings.own_logs("dependants", settings.rows, chunks=1)
    systems = {"dynq": "engine", "DuckDB": "duckdb"}
    jobs = {name: script("run_dependants.py", system, folder) for name, system in systems.items()}
    measured = interleaved(jobs, settings.runs)
    same_result("dependants", measured)
    mine, other = measured["dynq"], measured["DuckDB"]
    rows = [(what, seconds(mine[k]), seconds(other[k]), times(other[k], mine[k])) for k, what in STEPS.items()]
    says = (
        f"The chain with one row of R on which {many(settings.rows)} rows of S depend, each with one row of T:\n"
        f"no change touches more. DuckDB counts the join again after it. Median of {settings.runs}."
    )
    return Section(TITLE, says, ("", "dynq: apply", "DuckDB: count", "DuckDB ÷ dynq"), rows)
