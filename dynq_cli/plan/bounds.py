"""Bounds in n, the number of base rows: a power of n, and sizes of other things beside it.

`O(log n)`, `O(n + |Δ|)`: each is a sum of terms.
"""

from __future__ import annotations

import re

_EXPONENTS = {"1": 0.0, "log n": 0.01, "log² n": 0.011, "n": 1.0}


def power(exponent: float) -> str:
    return "O(n)" if exponent == 1 else f"O(n^{exponent:g})"


def exponent_of(term: str) -> float | None:
    """By which powers of n are compared; None for another term.

    >>> exponent_of("log n"), exponent_of("n^1.5"), exponent_of("|Δ|")
    (0.01, 1.5, None)
    """
    found = re.fullmatch(r"n\^([0-9.]+)", term)
    return float(found[1]) if found else _EXPONENTS.get(term)


def larger(a: str, b: str) -> bool:
    """Whether one power of n is more than another."""
    return (exponent_of(a[2:-1]) or 0.0) > (exponent_of(b[2:-1]) or 0.0)
