"""The hashes that place rows are part of the format: the same numbers for ever, and equal for equal values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from dynq_cli.values.hashes import coordinates, hashes_of

NULL = 11400714819323198485
KNOWN = [
    (
        pa.array([0, 1, -1, None, 2**62]),
        [16294208416658607535, 10451216379200822465, 16490336266968443936, NULL, 47939714376772075],
    ),
    (pa.array([1, None], pa.int8()), [10451216379200822465, NULL]),
    (pa.array(["", "a", "Zoë", None]), [6462926535050963950, 15829060357068751680, 3679747765341415534, NULL]),
    (pa.array([b"a"]), [15829060357068751680]),
    (
        pa.array([0.0, -0.0, 1.5, float("nan")]),
        [16294208416658607535, 16294208416658607535, 15481881892811333770, 14351126860892846918],
    ),
    (
        pa.array([Decimal("1.25"), Decimal("-1.25")], pa.decimal128(9, 2)),
        [7202628137039937091, 2630352736584239134],
    ),
    (pa.array([dt.date(2024, 2, 29)]), [15820024857312553229]),
    (pa.array([True, False]), [10451216379200822465, 16294208416658607535]),
    (pa.array([dt.datetime(2024, 2, 29, 1)], pa.timestamp("us")), [5509000376583032772]),
    (pa.array([dt.time(1, 2, 3)], pa.time64("us")), [7101827496478213981]),
]


def test_hashes_never_change() -> None:
    for values, hashes in KNOWN:
        assert hashes_of(values).tolist() == hashes, values.type
    assert coordinates(hashes_of(pa.array(range(8))), 0, 3).tolist() == [0, 2, 1, 2, 1, 0, 0, 0]
    assert coordinates(hashes_of(pa.array(range(8))), 1, 3).tolist() == [1, 1, 0, 2, 2, 1, 0, 2]


def test_parts_of_columns_have_the_hashes_of_the_whole() -> None:
    for values, hashes in KNOWN:
        for start in range(len(values)):
            assert hashes_of(values.slice(start)).tolist() == hashes[start:], values.type
    large = pa.array(["", "a", "Zoë", None], pa.large_string())
    assert hashes_of(large).tolist() == KNOWN[2][1]
