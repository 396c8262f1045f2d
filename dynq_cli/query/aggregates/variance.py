"""VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP and SEM of integers and decimals, from exact sums (`moments`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dynq_cli.query.aggregates.definition import Additive
from dynq_cli.query.aggregates.moments import Types, moment, per_row, where_there

_SUMS = {"n": (), "sx": ("{x}",), "sxx": ("{x}", "{x}")}


def _variance(types: Types, *, is_sample: bool) -> str:
    return where_there(per_row(moment(types, "x", "x"), is_sample=is_sample), 2 if is_sample else 1)


def _deviation(types: Types, *, is_sample: bool) -> str:
    return f"sqrt({_variance(types, is_sample=is_sample)})"


def _error_of_mean(types: Types) -> str:
    return f"sqrt({_variance(types, is_sample=False)} / CAST({{n}} AS DOUBLE))"


def _defined(name: str, result: Callable[[Types], str], *synonyms: str) -> Additive:
    return Additive(name, ("x",), _SUMS, result, "exact numbers", synonyms, is_duckdbs=True, cancels=True)


DEFINITIONS = (
    _defined("var_pop", partial(_variance, is_sample=False)),
    _defined("var_samp", partial(_variance, is_sample=True), "variance"),
    _defined("stddev_pop", partial(_deviation, is_sample=False)),
    _defined("stddev_samp", partial(_deviation, is_sample=True), "stddev"),
    _defined("sem", _error_of_mean),
)
