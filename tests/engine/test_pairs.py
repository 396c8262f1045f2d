"""A wide decimal as a pair of codes is the same decimal, and pairs are in the order of the decimals."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from itertools import pairwise

import pyarrow as pa
import pytest

from dynq_cli.engine.codes import NULL
from dynq_cli.engine.pairs import BITS, SHIFT, joined, split
from dynq_cli.spec.types import decimal

LARGEST = 10**38 - 1
EDGES = [0, 1, 2**62, 3 << 62, 2**63, 2**64, 2**125, 2**126, 10**37, LARGEST]


def values(scale: int) -> list[Decimal]:
    rng = random.Random(scale)
    numbers = {n + d for n in EDGES for d in (-1, 0, 1)} | {
        rng.randrange(10 ** rng.randrange(1, 39)) for _ in range(500)
    }
    with localcontext() as exact:
        exact.prec = 60
        signed = {sign * n for n in numbers if n <= LARGEST for sign in (1, -1)}
        return [Decimal(n).scaleb(-scale) for n in sorted(signed)]


@pytest.mark.parametrize("scale", [0, 2, 38])
def test_every_decimal_comes_back_and_pairs_order_like_decimals(scale: int) -> None:
    kind, given = decimal(38, scale), values(scale)
    high, low = split(pa.array(given, pa.decimal128(38, scale)), kind)
    assert joined(high, low, kind).to_pylist() == given
    assert all(x < y for x, y in pairwise(zip(high.tolist(), low.tolist(), strict=True)))
    numbers = [h * (3 << BITS) + lo + SHIFT for h, lo in zip(high.tolist(), low.tolist(), strict=True)]
    assert numbers == [digits(v) for v in given]
    assert NULL not in high and NULL not in low


def digits(value: Decimal) -> int:
    sign, parts, _ = value.as_tuple()
    return (-1 if sign else 1) * int("".join(map(str, parts)))


def test_null_is_null_in_both() -> None:
    kind = decimal(20, 1)
    given = [None, Decimal("0.0"), None, Decimal("-1234567890123456789.5")]
    high, low = split(
        pa.chunked_array([pa.array(given[:3], pa.decimal128(20, 1)), pa.array(given[3:], pa.decimal128(20, 1))]), kind
    )
    assert high[0] == low[0] == high[2] == low[2] == NULL
    assert joined(high, low, kind).to_pylist() == given
