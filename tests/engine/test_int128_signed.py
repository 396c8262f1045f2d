"""128-bit numbers with a sign are those of Python, and what does not fit is said."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from random import Random

import numpy as np
import pytest

from dynq_cli.engine.kernels import int128_signed
from dynq_cli.engine.pairs import split_lanes

EDGES = [0, 1, 2**31, 2**32, 2**62, 2**63, 2**64, 10**18, 2**96, 10**38 - 1, 10**38, 2**126, 2**127 - 1]
_LOW = 2**64 - 1


def numbers(seed: int, many: int = 400) -> list[int]:
    chance = Random(seed)
    near = [sign * (edge + by) for edge in EDGES for by in (-1, 0, 1) for sign in (1, -1)]
    found = [chance.choice([-1, 1]) * chance.getrandbits(chance.randrange(1, 127)) for _ in range(many)]
    return [n for n in near + found if -(2**127) < n < 2**127]


def lanes(number: int) -> tuple[int, int]:
    low = number & _LOW
    return (low - 2**64 if low >= 2**63 else low), number >> 64


def value(lo: int, hi: int) -> int:
    return (int(hi) << 64) + (int(lo) & _LOW)


def test_sums_and_products_fit_or_are_refused() -> None:
    chance = Random(1)
    several = numbers(2)
    for _ in range(3000):
        a, b = chance.choice(several), chance.choice(several)
        lo, hi, fits = int128_signed.add(*lanes(a), *lanes(b))
        assert fits == (-(2**127) <= a + b < 2**127) and (not fits or value(lo, hi) == a + b)
        lo, hi, fits = int128_signed.product(*lanes(a), *lanes(b))
        # A little below 2^127 counts as too large.
        assert not fits or value(lo, hi) == a * b
        assert fits or abs(a * b) > 1.59e38


@pytest.mark.parametrize("digits", [0, 1, 2, 7, 20])
def test_digits_are_cut_off_as_sql_rounds(digits: int) -> None:
    exact = Context(prec=60, rounding=ROUND_HALF_UP)
    for n in numbers(3):
        expected = int(Decimal(n).scaleb(-digits, context=exact).quantize(Decimal(1), context=exact))
        assert value(*int128_signed.without_digits(*lanes(n), digits)) == expected


def test_pairs_are_those_of_whole_columns() -> None:
    for n in numbers(4):
        lo, hi = lanes(n)
        assert int128_signed.has_38_digits(lo, hi) == (abs(n) < 10**38)
        assert float(int128_signed.as_double(lo, hi)) == pytest.approx(n, rel=3e-16)
        if abs(n) < 10**38:
            high, low = split_lanes(np.array([lo]), np.array([hi]))
            assert int128_signed.split(lo, hi) == (high[0], low[0])
            assert int128_signed.joined(high[0], low[0]) == (lo, hi)
