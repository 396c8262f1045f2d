"""Least squares from sums of products: ridge regression without the rows (thesis, chapter 7).

    minimise   Σ (y − Σ θ_j · x_j)² + ridge · Σ_{j > 0} θ_j²         x_0 = 1, whose coefficient is not penalised
    solve      (XᵀX + ridge · I) θ = Xᵀy

The matrix has the sums of products of two terms, so the time depends on the number of terms alone. Up to `MOST_EXACT`
terms are solved in rational numbers: every digit of a coefficient follows from the sums. More are solved by Cholesky's
method in doubles, after centring and scaling.

A term that is a linear combination of those before it has no coefficient of its own: it is named, and gets 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, sqrt
from typing import TypeAlias

import numpy as np

# In doubles and rational numbers alike the first term is the constant 1.
MOST_EXACT = 32
# What is left of a sum of squares that was rounded, relative to it, where a term depends on others.
_ROUNDED = Fraction(1, 10**12)

Vector: TypeAlias = "list[Fraction]"


@dataclass(frozen=True)
class NormalEquations:
    """`gram` are the sums of products of two terms, `right` of a term and the label, `square` of the label with itself.

    The first term is 1, so `gram[0][0]` is the number of rows. With `is_rounded` sums are of doubles.
    """

    gram: Sequence[Sequence[Fraction]]
    right: Sequence[Fraction]
    square: Fraction
    ridge: Fraction = Fraction(0)
    is_rounded: bool = False


@dataclass(frozen=True)
class Solution:
    """A coefficient per term, 0 for those that are `dependent`; the sum of squared errors, and R² if there is one."""

    coefficients: tuple[Fraction, ...]
    dependent: tuple[int, ...]
    sse: Fraction
    r2: Fraction | None


def solve(equations: NormalEquations) -> Solution:
    """The coefficients. O(terms³).

    >>> solve(NormalEquations([[Fraction(2), Fraction(3)], [Fraction(3), Fraction(5)]], [Fraction(5), Fraction(8)],
    ...     Fraction(13))).coefficients
    (Fraction(1, 1), Fraction(1, 1))
    """
    e = equations
    matrix = [list(row) for row in e.gram]
    for j in range(1, len(matrix)):
        matrix[j][j] += e.ridge
    found, dependent = (_exactly if len(matrix) <= MOST_EXACT else _in_doubles)(matrix, e)
    # ‖y − Xθ‖², where XᵀXθ is what the equations leave of Xᵀy.
    fitted = [sum((g * t for g, t in zip(row, found, strict=True)), Fraction(0)) for row in e.gram]
    sse = e.square + sum((t * (f - 2 * b) for t, f, b in zip(found, fitted, e.right, strict=True)), Fraction(0))
    sse = max(sse, Fraction(0))
    rows, total = e.gram[0][0], e.right[0]
    around = e.square - total * total / rows if rows else Fraction(0)
    return Solution(tuple(found), tuple(dependent), sse, 1 - sse / around if around > 0 else None)


def _exactly(matrix: list[Vector], e: NormalEquations) -> tuple[Vector, list[int]]:
    """Elimination without fractions (Bareiss), in the order of the terms, then substitution."""
    size = len(matrix)
    scale = lcm(*(x.denominator for row in matrix for x in row), *(x.denominator for x in e.right))
    left = [[int(x * scale) for x in (*row, b)] for row, b in zip(matrix, e.right, strict=True)]
    kept: list[int] = []
    dependent: list[int] = []
    before = 1
    for j in range(size):
        pivot = left[j][j]
        # The pivot is a ratio of determinants: pivot / before is what is left of the sum of squares of the term.
        limit = _ROUNDED * matrix[j][j] * scale if e.is_rounded else 0
        if pivot == 0 or Fraction(pivot, before) <= limit:
            dependent.append(j)
            continue
        kept.append(j)
        for i in range(j + 1, size):
            factor = left[i][j]
            left[i] = [(pivot * x - factor * y) // before for x, y in zip(left[i], left[j], strict=True)]
        before = pivot
    found = [Fraction(0)] * size
    for j in reversed(kept):
        rest = left[j][size] - sum((left[j][k] * found[k] for k in kept if k > j), Fraction(0))
        found[j] = Fraction(rest) / left[j][j]
    return found, dependent


def _in_doubles(matrix: list[Vector], e: NormalEquations) -> tuple[Vector, list[int]]:
    """Cholesky's method. The constant is eliminated exactly, and terms are scaled to a sum of squares of 1."""
    size, rows = len(matrix), matrix[0][0]
    if not rows:
        return [Fraction(0)] * size, list(range(size))
    means = [x / rows for x in matrix[0]]
    inner = [[matrix[i][j] - means[i] * matrix[0][j] for j in range(1, size)] for i in range(1, size)]
    right = [e.right[i] - means[i] * e.right[0] for i in range(1, size)]
    sizes = [sqrt(float(inner[i][i])) if inner[i][i] > 0 else 0.0 for i in range(size - 1)]
    scales = np.array([1 / s if s else 0.0 for s in sizes])
    a = np.array([[float(x) for x in row] for row in inner]) * scales[:, None] * scales[None, :]
    b = np.array([float(x) for x in right]) * scales
    lower = np.zeros_like(a)
    kept: list[int] = []
    for j in range(size - 1):
        row = lower[j, kept]
        rest = a[j, j] - float(row @ row)
        if rest <= 1e-11:
            continue
        kept.append(j)
        lower[j, j] = sqrt(rest)
        below = np.arange(j + 1, size - 1)
        earlier = kept[:-1]
        lower[below, j] = (a[below, j] - lower[below][:, earlier] @ lower[j, earlier]) / lower[j, j]
    part = lower[kept][:, kept]
    scaled = np.linalg.solve(part.T, np.linalg.solve(part, b[kept])) if kept else np.zeros(0)
    found = [Fraction(0)] * size
    for j, value in zip(kept, scaled * scales[kept], strict=True):
        found[j + 1] = Fraction(float(value))
    found[0] = e.right[0] / rows - sum((m * t for m, t in zip(means[1:], found[1:], strict=True)), Fraction(0))
    return found, [j + 1 for j in range(size - 1) if j not in kept]
