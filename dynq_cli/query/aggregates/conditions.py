"""BOOL_AND, BOOL_OR and COUNT_IF of conditions: from how many rows have one, and in how many it is true.

As in DuckDB, COUNT_IF is NULL where no row has a condition.
"""

from __future__ import annotations

from dynq_cli.query.aggregates.definition import Additive

_NUMBER = "CAST({} AS INTEGER)"
_SUMS = {"n": (), "t": ("CAST({x} AS INTEGER)",)}

DEFINITIONS = (
    Additive(
        "bool_and", ("x",), _SUMS, "CASE WHEN {n} > 0 THEN {t} = {n} END", "conditions",
        is_duckdbs=True, present=_NUMBER,
    ),
    Additive(
        "bool_or", ("x",), _SUMS, "CASE WHEN {n} > 0 THEN {t} > 0 END", "conditions",
        is_duckdbs=True, present=_NUMBER,
    ),
    Additive(
        "count_if", ("x",), _SUMS, "CAST({t} AS BIGINT)", "conditions",
        ("countif",), is_duckdbs=True, present=_NUMBER,
    ),
)  # fmt: skip
