"""Central moments of integers and decimals from sums, without cancellation.

    n²·COVAR_POP(x, y) = n·Σxy − Σx·Σy        n²·VAR_POP(x) is the same with y = x

Both sides of the difference may agree in most of their digits, so the difference is taken exactly. x and y are integers
here, a decimal in units of its last digit. To stay within 128 bits, each is moved by the integer quotient of its sum by
n, which leaves the moment as it is. With p and r, q and s the quotients and remainders of Σx / n and Σy / n:

    d = Σ(x − p)(y − q) = Σxy − p·Σy − q·r        n²·COVAR_POP(x, y) = n·d − r·s

If n·d does not fit, d exceeds 2^127 / n, while r·s/n is below n: doubles will do there.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynq_cli.spec.types import Type

Types = Mapping[str, Type]


def moment(types: Types, x: str, y: str) -> str:
    """n²·COVAR_POP(x, y) as SQL for a double, over the sums `n`, and `s` followed by the names of factors."""
    n = "{n}"
    sx, sy = (_in_units(f"{{s{name}}}", types[name].scale) for name in (x, y))
    sxy = _in_units(f"{{s{x}{y}}}", types[x].scale + types[y].scale)
    p, r, q, s = f"({sx} // {n})", f"({sx} % {n})", f"({sy} // {n})", f"({sy} % {n})"
    d = f"({sxy} - {p} * {sy} - {q} * {r})"
    exact = f"CAST(TRY({n} * {d} - {r} * {s}) AS DOUBLE)"
    rounded = f"({_double(n)} * {_double(d)} - {_double(r)} * {_double(s)})"
    if x != y:
        # Unlike squares, products may cancel: d alone may not fit.
        rounded = f"COALESCE(TRY({rounded}), {_double(n)} * {_double(sxy)} - {_double(sx)} * {_double(sy)})"
    scale = types[x].scale + types[y].scale
    return f"(COALESCE({exact}, {rounded}){f' / 1e{scale}' if scale else ''})"


def mean(x: str) -> str:
    """The mean as SQL for a double; NULL over nothing."""
    return f"(CAST({{s{x}}} AS DOUBLE) / CAST({{n}} AS DOUBLE))"


def where_there(result: str, least: int = 1) -> str:
    """A result that needs so many rows."""
    return f"CASE WHEN {{n}} >= {least} THEN {result} END"


def per_row(moment_: str, *, is_sample: bool = False) -> str:
    """A moment from n² times it; of a sample it is a little larger."""
    return f"{moment_} / {_double('{n}')} / {_double('({n} - 1)' if is_sample else '{n}')}"


def _double(sql: str) -> str:
    return f"CAST({sql} AS DOUBLE)"


def _in_units(total: str, scale: int) -> str:
    """A sum as an integer number of units of its last digit; by its text, since a product may need a 39th digit."""
    return f"CAST(replace(CAST({total} AS VARCHAR), '.', '') AS HUGEINT)" if scale else f"CAST({total} AS HUGEINT)"
