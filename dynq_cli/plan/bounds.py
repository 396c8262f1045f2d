"""Bounds in n, the number of base rows: a power of n, and sizes of other things beside it.

`O(log n)`, `O(n + |Δ|)`: each is a sum of terms.
"""

from __future__ import annotations

from collections.abc import Iterable

POWERS = ("1", "log n", "n^0.5", "n", "n^1.5")


def total(bounds: Iterable[str]) -> str:
    """The bound of several things together: the largest power of n, and every other term once.

    >>> total(["O(log n)", "O(1 + |Δ|)"])
    'O(log n + |Δ|)'
    """
    terms = list(dict.fromkeys(term for bound in bounds for term in bound[2:-1].split(" + ")))
    power = max((t for t in terms if t in POWERS), key=POWERS.index, default=POWERS[0])
    return f"O({' + '.join([power, *(t for t in terms if t not in POWERS)])})"


def times(many: str, bound: str) -> str:
    """The bound of doing something of cost `bound`, a power of n, as often as `many` says.

    >>> times("|Δ|", "O(1)"), times("|Δ|", "O(n)")
    ('O(|Δ|)', 'O(n·|Δ|)')
    """
    return f"O({many})" if bound == "O(1)" else f"O({bound[2:-1]}·{many})"
