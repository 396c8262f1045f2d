"""Values that a narrower type does not have stand behind the greatest value of the type that is not greater."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from dynq_cli.engine.floor_to_type import floor_to_type
from dynq_cli.spec.types import parse_type
from dynq_cli.values.convert import arrow_type
from tests.every_case import every_case


def rounded(value: Any, wide: str, narrow: str) -> Any:
    found = floor_to_type(pa.array([value], arrow_type(parse_type(wide)[0])), parse_type(narrow)[0])
    return None if found is None else found[0].as_py()


@every_case(
    ("value", "wide", "narrow", "expected"),
    [
        (Decimal("2.50"), "decimal(9,2)", "int64", 2),
        (Decimal("-2.50"), "decimal(9,2)", "int64", -3),
        (Decimal("-127.50"), "decimal(9,2)", "int8", -128),
        (Decimal("-128.50"), "decimal(9,2)", "int8", None),
        (Decimal("300.00"), "decimal(9,2)", "int8", 127),
        (Decimal(-(2**63)), "decimal(38,0)", "int64", None),
        (Decimal(2**63), "decimal(38,0)", "int64", 2**63 - 1),
        (1000, "int64", "int8", 127),
        (-1000, "int64", "int8", None),
        (1234, "int64", "decimal(3,1)", Decimal("99.9")),
        (-1234, "int64", "decimal(3,1)", None),
        (Decimal("-0.125"), "decimal(9,3)", "decimal(9,1)", Decimal("-0.2")),
        (Decimal("9" * 38), "decimal(38,0)", "decimal(38,10)", Decimal("9" * 28 + "." + "9" * 10)),
        (Decimal("7.00"), "decimal(9,2)", "int64", 7),
        (1e300, "float64", "float32", float(np.finfo(np.float32).max)),
        (-1e300, "float64", "float32", float("-inf")),
        (float("inf"), "float64", "float32", float("inf")),
    ],
)
def test_values_at_the_ends_and_between(value: Any, wide: str, narrow: str, expected: Any) -> None:
    assert rounded(value, wide, narrow) == expected


def test_no_value_of_the_type_lies_between() -> None:
    chance = Random(3)
    for _ in range(300):
        value = Decimal(chance.randint(-99999, 99999)).scaleb(-3)
        for narrow, step in (
            ("int32", Decimal(1)),
            ("decimal(9,1)", Decimal("0.1")),
            ("decimal(9,2)", Decimal("0.01")),
        ):
            found = rounded(value, "decimal(9,3)", narrow)
            assert found <= value < found + step
    for _ in range(300):
        number = chance.uniform(-1, 1) * 10.0 ** chance.randint(-30, 30)
        found = rounded(number, "float64", "float32")
        assert found <= number < float(np.nextafter(np.float32(found), np.float32(np.inf)))
