"""Which cycles IVM-ε keeps the sums of, and from how many rows on a value is heavy.

    SELECT count(*) FROM R, S, T WHERE R.b = S.b AND S.c = T.c AND T.a = R.a        kept by IVM-ε
    SELECT sum(R.w), avg(S.w * T.w) FROM …                                          likewise, a number per monomial
    SELECT R.a, count(*) FROM … GROUP BY R.a                                        by delta joins: rows are told apart

A triangle of which rows are only counted or summed up costs O(N^max(ε, 1−ε)) per changed row, amortised, and space
O(N + N^(2−2ε)): the sums over pairs of values that are both in the lists of N^ε rows or more
(`engine/kernels/cycle_pairs`). With ε = 1 no value is heavy, and a change costs the shorter list, as in a delta join.
Below 1/2 both bounds only grow.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache

from dynq_cli.plan.delta_join import bound_in
from dynq_cli.plan.program import Cycle, HeavyPairs, Weight
from dynq_cli.query.normal_form import ConjunctiveQuery

EPSILON = Decimal("0.5")
# A table of N = 2^k rows has a threshold for each k up to this.
MOST_DOUBLINGS = 40


def is_triangle(query: ConjunctiveQuery) -> bool:
    """Whether a query joins three atoms, each over two of three variables."""
    several = [a.variables for a in query.atoms]
    return (
        len(several) == 3
        and all(a.mode == "join" for a in query.atoms)
        and all(len(v) == 2 for v in several)
        and len(frozenset().union(*several)) == 3
        and len(set(several)) == 3
    )


def counts_triangles(query: ConjunctiveQuery) -> bool:
    """Whether a query's rows are triangles that are counted, and not told apart."""
    return is_triangle(query) and not query.comparisons and not bound_in(query) & frozenset(query.head)


def counting(epsilon: Decimal) -> HeavyPairs | None:
    """What is kept to count triangles; None if nothing is heavy."""
    return None if epsilon == 1 else HeavyPairs(epsilon, ((Weight(),) * 3,))


@cache
def thresholds(epsilon: Decimal) -> tuple[int, ...]:
    """For each k the largest whole number that is at most 2^(k·ε): from so many rows on a value is heavy.

    >>> thresholds(Decimal("0.5"))[:6], thresholds(Decimal("0.75"))[8]
    ((1, 1, 2, 2, 4, 5), 64)
    """
    p, q = epsilon.as_integer_ratio()
    return tuple(_root(1 << (k * p), q) for k in range(MOST_DOUBLINGS + 1))


def _root(number: int, q: int) -> int:
    """The largest whole number whose q-th power is at most `number`."""
    low, high = 1, 1 << (number.bit_length() // q + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**q <= number else (low, middle - 1)
    return low


def pairs_space(epsilon: Decimal) -> str:
    """How many pairs of heavy values there are, as a power of n.

    >>> pairs_space(Decimal("0.5")), pairs_space(Decimal("0.75"))
    ('n', 'n^0.5')
    """
    exponent = 2 - 2 * epsilon
    return "n" if exponent == 1 else f"n^{exponent.normalize()}"


def exponent_of(cycle: Cycle) -> float:
    """max(ε, 1 − ε): a changed row costs N to this power, amortised."""
    assert cycle.pairs is not None
    return float(max(cycle.pairs.epsilon, 1 - cycle.pairs.epsilon))
