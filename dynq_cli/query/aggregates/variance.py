"""VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP of integers and decimals, without cancellation.

    n²·VAR_POP = n·Σx² − (Σx)²

Both sides of the difference may agree in most of their digits, so the difference is taken exactly. x is an integer
here, a decimal in units of its last digit. To stay within 128 bits, x is moved by q, the integer quotient of Σx / n,
which leaves the variance as it is. With r the remainder:

    d = Σ(x − q)² = Σx² − q·Σx − q·r        n²·VAR_POP = n·d − r²

No product is larger than Σx². If n·d does not fit, d exceeds 2^127 / n, while r²/n is below n: doubles will do there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dynq_cli.query.aggregates.definition import Additive
from dynq_cli.spec.types import Type

_SUMS = {"n": (), "s": ("{x}",), "ss": ("{x}", "{x}")}


def _in_units(total: str, scale: int) -> str:
    """A sum as an integer number of units of its last digit; by its text, since a product may need a 39th digit."""
    return f"CAST(replace(CAST({total} AS VARCHAR), '.', '') AS HUGEINT)" if scale else f"CAST({total} AS HUGEINT)"


def _variance(types: Mapping[str, Type], *, is_sample: bool) -> str:
    scale = types["x"].scale
    n, s, ss = "{n}", _in_units("{s}", scale), _in_units("{ss}", 2 * scale)
    q, r = f"({s} // {n})", f"({s} % {n})"
    d = f"({ss} - {q} * {s} - {q} * {r})"
    exact = f"CAST(TRY({n} * {d} - {r} * {r}) AS DOUBLE)"
    rounded = f"(CAST({n} AS DOUBLE) * CAST({d} AS DOUBLE) - CAST({r} AS DOUBLE) * CAST({r} AS DOUBLE))"
    least, free = (2, f"({n} - 1)") if is_sample else (1, n)
    whole = f"COALESCE({exact}, {rounded}) / CAST({n} AS DOUBLE) / CAST({free} AS DOUBLE)"
    return f"CASE WHEN {n} >= {least} THEN {whole}{f' / 1e{2 * scale}' if scale else ''} END"


def _deviation(types: Mapping[str, Type], *, is_sample: bool) -> str:
    return f"sqrt({_variance(types, is_sample=is_sample)})"


def _defined(name: str, result: Callable[[Mapping[str, Type]], str], *synonyms: str) -> Additive:
    return Additive(name, ("x",), _SUMS, result, "exact numbers", synonyms, is_duckdbs=True)


DEFINITIONS = (
    _defined("var_pop", partial(_variance, is_sample=False)),
    _defined("var_samp", partial(_variance, is_sample=True), "variance"),
    _defined("stddev_pop", partial(_deviation, is_sample=False)),
    _defined("stddev_samp", partial(_deviation, is_sample=True), "stddev"),
)
