"""Group `models`: a regression over a join of three tables under single changes, beside joining and fitting again."""

from __future__ import annotations

from processes import interleaved, same_result, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "A model over a join"
# Rows of lineitem at scale 1, about.
_LINES = 6_000_000


def measure(settings: Settings) -> Section:
    scale = settings.rows / _LINES
    options = ("--scale", f"{scale:.4f}", "--changes", settings.rows)
    jobs = {name: script("run_models.py", name, settings.data, *options) for name in ("engine", "numpy")}
    measured = interleaved(jobs, settings.runs)
    same_result("models", measured)
    mine, other = measured["engine"], measured["numpy"]
    refresh = mine["change_s"] + mine["fit_s"]
    rows = [
        ("a change of lineitem", seconds(mine["change_s"]), "–", "–"),
        ("the coefficients", seconds(mine["fit_s"]), seconds(other["solve_s"]), times(other["solve_s"], mine["fit_s"])),
        ("the join", "–", seconds(other["join_s"]), "–"),
        ("a refresh", seconds(refresh), seconds(other["refresh_s"]), times(other["refresh_s"], refresh)),
        ("MB kept, tables included", many(mine["kept_mb"]), many(other["kept_mb"]), ""),
    ]
    size = f"scale {scale:.3g}, {many(mine['rows'])} rows of the join"
    says = (
        "The total of an order by quantity and price of its lines and the balance of its customer: customer,\n"
        f"orders and lineitem of TPC-H at {size}. {many(settings.rows)} changes of one row of\n"
        "lineitem, each a commit; a refresh is one of them and a fit. Beside it: the join by DuckDB into arrays, and\n"
        "numpy's lstsq. dynq keeps all keys and the rows of the query, too; the other side the tables as Arrow has\n"
        f"them and the training set, whose size grows with the join. Median of {settings.runs}."
    )
    return Section(TITLE, says, ("", "dynq", "DuckDB and numpy", "÷"), rows)
