"""Fitted models and their sums as JSON.

One object; of a model with `per` one with a list of `groups`, each with its `group`: the values of these columns.
Numbers have all their digits, and NULL stands for what is not known.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynq_cli.engine.models import Fit, Moments


def fits_text(fits: Sequence[Fit], version: int, *, has_groups: bool, exact: bool = False) -> str:
    """Coefficients by term, `n`, `sse` and `r2`; with `exact` the coefficients are fractions in strings."""
    return _document([_fit(fit, exact) for fit in fits], [fit.group for fit in fits], version, has_groups)


def moments_text(moments: Sequence[Moments], version: int, *, has_groups: bool) -> str:
    """`n`, and `moments`: the sums by product."""
    shown = [{"n": each.rows, "moments": dict(each.sums)} for each in moments]
    return _document(shown, [each.group for each in moments], version, has_groups)


def _fit(fit: Fit, exact: bool) -> dict[str, Any]:
    coefficients: dict[str, Any] = dict(fit.coefficients)
    if exact:
        coefficients = {name: str(value) for name, value in fit.fractions.items()}
    shown = {"coefficients": coefficients, "n": fit.n, "sse": fit.sse, "r2": fit.r2}
    return shown | ({"dependent": list(fit.dependent)} if fit.dependent else {})


def _document(
    shown: Sequence[dict[str, Any]], groups: Sequence[Mapping[str, Any]], version: int, has_groups: bool
) -> str:
    if not has_groups:
        return _json({**shown[0], "version": version})
    listed = [{"group": dict(group), **each} for group, each in zip(groups, shown, strict=True)]
    return _json({"groups": listed, "version": version})


def _json(value: Any) -> str:
    """JSON with decimals as numbers, which `json` cannot write.

    >>> _json({"a": [Decimal("1.50"), float("nan"), 2]})
    '{"a": [1.50, null, 2]}'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k), ensure_ascii=False)}: {_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, Fraction) or hasattr(value, "isoformat"):
        return json.dumps(value.isoformat() if hasattr(value, "isoformat") else str(value))
    return json.dumps(value, ensure_ascii=False)
