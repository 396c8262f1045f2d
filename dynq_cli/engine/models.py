"""Read the sums of a model, and fit it.

    moments(views, model)    per group: the number of rows, and the sum of every product
    fits(views, model)       per group: coefficients, squared error, R²

The sums are in the groups of a hidden query (`query.models`). O(groups · terms³), whatever the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dynq_cli.engine.least_squares import NormalEquations, solve
from dynq_cli.engine.views import Views
from dynq_cli.query.models import Exponents, monomials, product_name, terms
from dynq_cli.spec.model import ModelSpec
from dynq_cli.values.convert import python_value

Number = int | Decimal | float


@dataclass(frozen=True)
class Moments:
    """The sums behind a model in one group: `sums` by product, as in `x^2*y`; `rows` is the number of rows."""

    group: Mapping[str, Any]
    rows: int
    sums: Mapping[str, Number]


@dataclass(frozen=True)
class Fit:
    """A fitted model in one group.

    `coefficients` are by term, `1` first; None if there are no rows. `dependent` terms are combinations of those before
    them, and have the coefficient 0. `fractions` are the coefficients as the sums give them. `r2` is None where all
    labels are equal.
    """

    group: Mapping[str, Any]
    coefficients: Mapping[str, float | None]
    n: int
    sse: float
    r2: float | None
    dependent: tuple[str, ...]
    fractions: Mapping[str, Fraction]


def moments(views: Views, model: ModelSpec) -> Iterator[Moments]:
    """Yield the sums of each group, by its values, NULL first; of a model without `per`, once."""
    names = (*model.features, model.label)
    for group, sums in _groups(views, model):
        shown = {product_name(names, e): value for e, value in sums.items()}
        yield Moments(group, int(shown["1"]), shown)


def fits(views: Views, model: ModelSpec) -> Iterator[Fit]:
    """Yield the fit of each group; of a model without `per`, once."""
    form = views.form_of(model.query)
    is_rounded = any(c.type.is_float for c in form.columns[len(model.per) :])
    for group, sums in _groups(views, model):
        yield _fit(model, group, sums, is_rounded)


def _groups(views: Views, model: ModelSpec) -> Iterator[tuple[Mapping[str, Any], Mapping[Exponents, Number]]]:
    products = monomials(model)
    many = len(model.per)
    rows = [
        row
        for batch in views.enum(model.query)
        for row in zip(*(map(python_value, column) for column in batch.columns), strict=True)
    ]
    for row in sorted(rows, key=lambda row: [(value is not None, value) for value in row[:many]]):
        sums = {e: value or 0 for e, value in zip(products, row[many:], strict=True)}
        yield dict(zip(model.per, row, strict=False)), sums


def _fit(model: ModelSpec, group: Mapping[str, Any], sums: Mapping[Exponents, Number], is_rounded: bool) -> Fit:
    several = terms(model)
    names = [product_name(model.features, t) for t in several]
    n = int(sums[(0,) * (len(model.features) + 1)])
    if not n or not all(math.isfinite(value) for value in sums.values()):
        return Fit(group, dict.fromkeys(names), n, 0.0 if not n else math.nan, None, (), {})

    def total(features: Exponents, label: int) -> Fraction:
        return Fraction(sums[*features, label])

    gram = [[total(tuple(map(sum, zip(a, b, strict=True))), 0) for b in several] for a in several]
    right = [total(a, 1) for a in several]
    zero = (0,) * len(model.features)
    found = solve(NormalEquations(gram, right, total(zero, 2), Fraction(model.ridge), is_rounded))
    coefficients = dict(zip(names, found.coefficients, strict=True))
    return Fit(
        group,
        {name: float(c) for name, c in coefficients.items()},
        n,
        float(found.sse),
        None if found.r2 is None else float(found.r2),
        tuple(names[i] for i in found.dependent),
        coefficients,
    )
