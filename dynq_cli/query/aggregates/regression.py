"""COVAR_*, CORR and REGR_* of two columns, integers and decimals, from exact sums (`moments`).

As in SQL, the dependent column comes first, and rows where either is NULL are left out. Where a column does not vary, a
quotient has no value: CORR and REGR_SLOPE are NaN then, REGR_INTERCEPT and REGR_R2 are NULL, as DuckDB has them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dynq_cli.query.aggregates.definition import Additive
from dynq_cli.query.aggregates.moments import Types, mean, moment, per_row, where_there

_NAN = "CAST('NaN' AS DOUBLE)"
_N = "CAST({n} AS DOUBLE)"


def _covariance(types: Types, *, is_sample: bool) -> str:
    return where_there(per_row(moment(types, "y", "x"), is_sample=is_sample), 2 if is_sample else 1)


def _correlation(types: Types) -> str:
    xx, yy = moment(types, "x", "x"), moment(types, "y", "y")
    return f"CASE WHEN {xx} = 0 OR {yy} = 0 THEN {_NAN} ELSE {moment(types, 'y', 'x')} / (sqrt({xx}) * sqrt({yy})) END"


def _slope(types: Types) -> str:
    xx = moment(types, "x", "x")
    return f"CASE WHEN {xx} = 0 THEN {_NAN} ELSE {moment(types, 'y', 'x')} / {xx} END"


def _intercept(types: Types) -> str:
    xx = moment(types, "x", "x")
    return f"CASE WHEN {xx} <> 0 THEN {mean('y')} - {moment(types, 'y', 'x')} / {xx} * {mean('x')} END"


def _determination(types: Types) -> str:
    xx, yy, yx = (moment(types, *names) for names in ("xx", "yy", "yx"))
    return f"CASE WHEN {xx} = 0 THEN NULL WHEN {yy} = 0 THEN 1e0 ELSE ({yx} / {xx}) * ({yx} / {yy}) END"


def _moment(types: Types, names: str) -> str:
    return f"{moment(types, *names)} / {_N}"


def _defined(name: str, sums: str, result: Callable[[Types], str]) -> Additive:
    """An aggregate over the sums of these products; it is NULL over no rows."""
    products = {"n": (), **{f"s{names}": tuple(f"{{{each}}}" for each in names) for names in sums.split()}}

    def there(types: Types) -> str:
        return where_there(result(types))

    return Additive(name, ("y", "x"), products, there, "exact numbers", is_duckdbs=True, cancels=True)


_ALL = "y x yy yx xx"

DEFINITIONS = (
    _defined("covar_pop", "y x yx", partial(_covariance, is_sample=False)),
    _defined("covar_samp", "y x yx", partial(_covariance, is_sample=True)),
    _defined("corr", _ALL, _correlation),
    _defined("regr_slope", "y x yx xx", _slope),
    _defined("regr_intercept", "y x yx xx", _intercept),
    _defined("regr_r2", _ALL, _determination),
    _defined("regr_sxx", "x xx", partial(_moment, names="xx")),
    _defined("regr_syy", "y yy", partial(_moment, names="yy")),
    _defined("regr_sxy", "y x yx", partial(_moment, names="yx")),
    _defined("regr_avgx", "x", lambda _: mean("x")),
    _defined("regr_avgy", "y", lambda _: mean("y")),
    Additive("regr_count", ("y", "x"), {"n": ()}, "{n}", "anything", is_duckdbs=True),
)
