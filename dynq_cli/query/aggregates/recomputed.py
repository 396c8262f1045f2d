"""Aggregates that no sums and no order give: DuckDB computes each again from all rows of a group that changes.

FAVG, FSUM and GEOMEAN are exact sums in other words.
"""

from __future__ import annotations

from dynq_cli.query.aggregates.definition import Additive, Recomputed

_FLOATS = {"n": (), "s": ("CAST({x} AS DOUBLE)",)}

DEFINITIONS = (
    Recomputed("kurtosis", ("x",)),
    Recomputed("kurtosis_pop", ("x",)),
    Recomputed("skewness", ("x",)),
    Recomputed("entropy", ("x",), of_nothing="0"),
    Recomputed("mad", ("x",)),
    Additive("fsum", ("x",), {"s": _FLOATS["s"]}, "{s}", synonyms=("kahan_sum", "sumkahan"), is_duckdbs=True),
    Additive("favg", ("x",), _FLOATS, "{s} / {n}", is_duckdbs=True),
    Additive("geomean", ("x",), {"n": (), "l": ("ln({x})",)}, "exp({l} / {n})", synonyms=("geometric_mean",)),
)
