"""Arrow types become the spec type that holds every one of their values, or a reason why not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dynq_cli.io.arrow_types import NoTypeError, from_arrow
from tests.every_case import every_case


@every_case(
    ("kind", "expected"),
    [
        (pa.bool_(), "bool"),
        (pa.int8(), "int8"),
        (pa.uint8(), "int16"),
        (pa.uint32(), "int64"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float32"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(16), "binary"),
        (pa.date64(), "date"),
        (pa.time32("ms"), "time"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("s"), "timestamp"),
        (pa.decimal128(15, 2), "decimal(15,2)"),
        (pa.decimal256(38, 10), "decimal(38,10)"),
        (pa.decimal128(5, -3), "decimal(8,0)"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int16()), "int16"),
        (pa.uuid(), "binary"),
    ],
    ids=str,
)
def test_a_type_is_widened_without_loss(kind: pa.DataType, expected: str) -> None:
    assert str(from_arrow(kind)) == expected


def test_the_null_type_says_nothing() -> None:
    assert from_arrow(pa.null()) is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.list_(pa.int32()), "nested"),
        (pa.struct([("a", pa.int32())]), "nested"),
        (pa.map_(pa.string(), pa.int32()), "nested"),
        (pa.decimal256(60, 2), "more than 38 digits"),
        (pa.duration("s"), "no counterpart"),
        (pa.month_day_nano_interval(), "no counterpart"),
    ],
    ids=str,
)
def test_what_no_type_holds_is_refused_with_a_reason(kind: pa.DataType, reason: str) -> None:
    with pytest.raises(NoTypeError, match=reason):
        from_arrow(kind)
