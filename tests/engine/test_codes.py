"""Every value comes back from its code, codes stand in the order of values, and nothing is lost on the way in."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynq_cli.engine.codes import NULL, UNKNOWN, CodeError, arrow_type, decode, encode, needs_labels
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.labels import Labels
from dynq_cli.spec.types import DATE, FLOAT64, INT64, STRING, TIME, TIMESTAMP, Type, decimal
from tests.every_case import every_case

INT8, INT32, FLOAT32, BINARY = Type("int8"), Type("int32"), Type("float32"), Type("binary")


def integers(bits: int) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1))
    return st.integers(low + (bits == 64), -low - 1) | st.sampled_from([low + 1, -1, 0, 1, -low - 1])


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    unscaled = st.integers(-most, most) | st.sampled_from([-most, -1, 0, 1, most])
    return unscaled.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)))


floats = partial(st.floats, allow_nan=True, allow_infinity=True)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type("bool"): st.booleans(),
    INT8: integers(8),
    Type("int16"): integers(16),
    INT32: integers(32),
    INT64: integers(64),
    FLOAT32: floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf]),
    FLOAT64: floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324]),
    decimal(1, 0): decimals(1, 0),
    decimal(18, 2): decimals(18, 2),
    decimal(19, 19): decimals(19, 19),
    decimal(38, 0): decimals(38, 0),
    decimal(38, 10): decimals(38, 10),
    STRING: st.text(max_size=12),
    BINARY: st.binary(max_size=12),
    DATE: st.dates() | st.sampled_from([date(1, 1, 1), date(1582, 10, 14), date(1969, 12, 31)]),
    TIME: st.times() | st.sampled_from([time.min, time.max]),
    TIMESTAMP: st.datetimes() | st.sampled_from([datetime.min, datetime.max, datetime(1582, 10, 14)]),
}
COLUMNS = st.sampled_from(list(VALUES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | VALUES[kind], max_size=20))
)


def as_expected(value: Any) -> Any:
    """What a value must be after a round trip: one zero, and one NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value + 0.0)
    return value


def as_seen(value: Any) -> Any:
    """A value so that 0.0 differs from -0.0, and NaN equals itself."""
    return ("NaN" if math.isnan(value) else repr(value)) if isinstance(value, float) else value


def order_key(value: Any) -> Any:
    """Python's order of values, with NaN greatest."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


@settings(deadline=None, derandomize=True, max_examples=400)
@given(COLUMNS, st.integers(0, 3))
def test_every_value_comes_back_from_its_code(column: tuple[Type, list[Any]], skipped: int) -> None:
    kind, values = column
    dictionaries = Dictionaries()
    codes = encode(pa.array(values, arrow_type(kind))[skipped:], kind, dictionaries)
    values = values[skipped:]
    assert codes.dtype == np.int64 and not codes.flags.writeable
    assert [code == NULL for code in codes.tolist()] == [value is None for value in values]
    back = decode(codes, kind, dictionaries)
    back.validate(full=True)
    assert back.type == arrow_type(kind)
    assert list(map(as_seen, back.to_pylist())) == list(map(as_expected, values))
    assert encode(back, kind, dictionaries, intern=False).tolist() == codes.tolist()


@settings(deadline=None, derandomize=True, max_examples=400)
@given(COLUMNS)
def test_codes_or_their_labels_stand_in_the_order_of_values(column: tuple[Type, list[Any]]) -> None:
    kind, values = column
    values = [value for value in values if value is not None]
    dictionaries = Dictionaries()
    codes = encode(pa.array(values, arrow_type(kind)), kind, dictionaries)
    assert (codes > NULL).all()
    if needs_labels(kind):
        labels = Labels()
        labels.update(dictionaries.of(kind))
        codes = labels.labels[codes]
    ranks = {key: rank for rank, key in enumerate(sorted({order_key(value) for value in values}))}
    wanted = [ranks[order_key(value)] for value in values]
    assert np.unique(codes, return_inverse=True)[1].tolist() == wanted


def test_codes_are_what_the_design_says() -> None:
    made = Dictionaries()
    assert encode(pa.array([True, None, False]), Type("bool"), made).tolist() == [1, NULL, 0]
    assert encode(pa.array([date(1970, 1, 2), date(1582, 10, 4)]), DATE, made).tolist() == [1, -141438]
    assert encode(pa.array([Decimal("-1.50")]), decimal(18, 2), made).tolist() == [-150]
    assert encode(pa.array([datetime(1970, 1, 1, 0, 0, 1)]), TIMESTAMP, made).tolist() == [1_000_000]
    assert encode(pa.array(["b", "a", "b"]), STRING, made).tolist() == [0, 1, 0]


@pytest.mark.filterwarnings("error")
def test_every_nan_is_one_value() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64)
    array = pa.array(bits.view(np.float64))
    assert array.null_count == 0
    assert len(set(encode(array, FLOAT64, Dictionaries()).tolist())) == 1


def test_what_lies_under_a_null_does_not_matter() -> None:
    under = [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([7, NULL], np.int64))]
    assert encode(pa.Array.from_buffers(pa.int64(), 2, under), INT64, Dictionaries()).tolist() == [7, NULL]
    under = [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([7, -1], np.int64))]
    assert encode(pa.Array.from_buffers(pa.time64("us"), 2, under), TIME, Dictionaries()).tolist() == [7, NULL]
    under = [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([-7, -1, 10**6, 5, 10**5, 0], np.int64))]
    narrow = pa.Array.from_buffers(pa.decimal128(4, 2), 3, under)
    with pytest.raises(CodeError):
        encode(narrow, decimal(4, 2), Dictionaries())
    assert encode(narrow[:2], decimal(4, 2), Dictionaries()).tolist() == [-7, NULL]
    assert encode(narrow[1:2], decimal(4, 2), Dictionaries()).tolist() == [NULL]


def test_the_smallest_int64_is_refused_beside_nulls() -> None:
    with pytest.raises(CodeError) as refused:
        encode(pa.array([None, 1, NULL, None], pa.int64()), INT64, Dictionaries())
    assert refused.value.row == 2


@pytest.mark.parametrize("kind", [Type("int8"), INT64, DATE, STRING, decimal(13, 2), decimal(30, 2), FLOAT64])
def test_nulls_of_a_slice_are_its_own(kind: Type) -> None:
    numbers = pa.array([None if i % 3 == 0 or i > 30 else i for i in range(40)], pa.int32())
    array = numbers.cast(arrow_type(kind))
    for start, stop in ((0, 40), (1, 9), (7, 23), (8, 40), (13, 13), (1, 3), (31, 40)):
        part, made = array[start:stop], Dictionaries()
        assert decode(encode(part, kind, made), kind, made).to_pylist() == part.to_pylist()


def test_an_int64_column_is_not_copied_either_way() -> None:
    array = pa.array(range(1000))[10:]
    codes = encode(array, INT64, Dictionaries())
    assert codes.__array_interface__["data"][0] == array.buffers()[1].address + 80
    assert decode(codes, INT64, Dictionaries()).buffers()[1].address == codes.__array_interface__["data"][0]


def test_strings_of_ten_megabytes_come_back() -> None:
    values = ["é" * 5_000_000, None, "", "é" * 5_000_000 + "e"]
    made = Dictionaries()
    assert decode(encode(pa.array(values), STRING, made), STRING, made).to_pylist() == values


def test_looking_up_adds_nothing() -> None:
    made = Dictionaries()
    wide = decimal(38, 0)
    encode(pa.array(["a"]), STRING, made)
    assert encode(pa.array(["b", None, "a"]), STRING, made, intern=False).tolist() == [UNKNOWN, NULL, 0]
    assert encode(pa.array([5]), wide, made, intern=False).tolist() == [UNKNOWN]
    assert made.counts() == {"string": 1, "binary": 0, "decimal": 0}


NS, MS = pa.timestamp("ns"), pa.timestamp("ms", "Europe/Berlin")
INSTANT = datetime(2024, 2, 29, 12, 30)


@every_case(
    ("array", "kind"),
    [
        (pa.array([1, None, -7], pa.int32()), INT64),
        (pa.array([1, None, 127], pa.int64()), INT8),
        (pa.array([1, None], pa.uint64()), INT64),
        (pa.array([Decimal("12.00"), None]), INT32),
        (pa.array([None, None]), INT64),
        (pa.array([1.5, None, math.inf], pa.float32()), FLOAT64),
        (pa.array([1.5, None, math.inf]), FLOAT32),
        (pa.array([1, None, 2**53]), FLOAT64),
        (pa.array([1, None, 2**64 - 1], pa.uint64()), decimal(38, 18)),
        (pa.array([1, None, -3], pa.int8()), decimal(5, 2)),
        (pa.array([Decimal("1.5"), None]), decimal(38, 30)),
        (pa.array([Decimal("1.50000"), None], pa.decimal256(70, 5)), decimal(18, 1)),
        (pa.array([Decimal("1.5"), None], pa.decimal64(10, 1)), decimal(20, 1)),
        (pa.array(["a", None, ""], pa.large_string()), STRING),
        (pa.array(["a", None, "long enough for a view"], pa.string_view()), STRING),
        (pa.array(["a", None, "a"]).dictionary_encode(), STRING),
        (pc.run_end_encode(pa.array(["a", "a", None])), STRING),
        (pa.array([b"ab", None], pa.binary(2)), BINARY),
        (pa.array([b"ab", None], pa.binary_view()), BINARY),
        (pa.array([date(1500, 1, 1), None], pa.date64()), DATE),
        (pa.array([time(1, 2, 3), None], pa.time32("s")), TIME),
        (pa.array([time(1, 2, 3, 4), None], pa.time64("ns")), TIME),
        (pa.array([INSTANT, None], NS), TIMESTAMP),
        (pa.chunked_array([[3, None], [], [4]]), INT64),
        (pa.chunked_array([], pa.int64()), INT64),
    ],
    ids=lambda value: str(getattr(value, "type", value)).replace(" ", ""),
)
def test_a_column_of_a_related_type_keeps_its_values(array: pa.Array, kind: Type) -> None:
    made = Dictionaries()
    assert decode(encode(array, kind, made), kind, made).to_pylist() == array.to_pylist()


def test_instants_with_a_zone_are_instants_in_utc() -> None:
    made = Dictionaries()
    array = pa.array([INSTANT.replace(tzinfo=UTC), None], MS)
    assert decode(encode(array, TIMESTAMP, made), TIMESTAMP, made).to_pylist() == [INSTANT, None]


def lying_decimal(number: int) -> pa.Array:
    """A decimal(3,0) that has more digits than its type says, as files can have."""
    content = b"".join(value.to_bytes(16, "little", signed=True) for value in (1, number))
    return pa.Array.from_buffers(pa.decimal128(3, 0), 2, [None, pa.py_buffer(content)])


@every_case(
    ("array", "kind", "row", "reason"),
    [
        (pa.array([1, None, 128, 300]), INT8, 2, "128 does not fit int8"),
        (pa.array([1, 2**63], pa.uint64()), INT64, 1, "9223372036854775808 does not fit int64"),
        (pa.array([5, None, NULL]), INT64, 2, "the smallest int64 stands for NULL"),
        (pa.array([None, 5, NULL], pa.timestamp("us")), TIMESTAMP, 2, "the smallest timestamp stands for NULL"),
        (pa.array([Decimal("1.0"), Decimal("1.5")]), INT64, 1, "1.5 does not fit int64"),
        (pa.array([Decimal(1), Decimal(10**30)]), INT64, 1, "does not fit int64"),
        (pa.array([1.5, math.nan, 0.1]), FLOAT32, 2, "0.1 does not fit float32"),
        (pa.array([1.5, None, 1e300]), FLOAT32, 2, "1e+300 does not fit float32"),
        (pa.array([1, 2**53 + 1]), FLOAT64, 1, "9007199254740993 does not fit float64"),
        (pa.array([Decimal("1.00"), Decimal("1.25")]), decimal(10, 1), 1, "1.25 does not fit decimal(10,1)"),
        (pa.array([999, 1000]), decimal(5, 2), 1, "1000 does not fit decimal(5,2)"),
        (pa.array([99_999_999, 2**40]), decimal(38, 30), 1, "does not fit decimal(38,30)"),
        (pa.array([1, 2**62]), decimal(38, 37), 1, "does not fit decimal(38,37)"),
        (lying_decimal(5000), decimal(3, 0), 1, "does not fit decimal(3,0)"),
        (lying_decimal(2**100), decimal(18, 0), 1, "does not fit decimal(18,0)"),
        (pa.array([b"a", b"\xff"]).view(pa.string()), STRING, 1, "not valid UTF-8"),
        (pa.array([0, 86_400_001]).view(pa.date64()), DATE, 1, "does not fit date"),
        (pa.array([0, -1]).view(pa.time64("us")), TIME, 1, "does not fit time"),
        (pa.array([0, 86_400_000_000]).view(pa.time64("us")), TIME, 1, "does not fit time"),
        (pa.array([1000, 1001], NS), TIMESTAMP, 1, "does not fit timestamp"),
        (pa.array([0, 2**62], pa.timestamp("s")), TIMESTAMP, 1, "does not fit timestamp"),
        (pa.chunked_array([[1, 2], [], [3, 400]]), INT8, 3, "400 does not fit int8"),
        (pa.array([1, 300]).dictionary_encode(), INT8, 1, "300 does not fit int8"),
    ],
)
def test_the_first_row_that_does_not_fit_is_named(array: pa.Array, kind: Type, row: int, reason: str) -> None:
    with pytest.raises(CodeError) as caught:
        encode(array, kind, Dictionaries())
    assert caught.value.row == row
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"row {row}: ")


WRONG: list[tuple[Callable[[], pa.Array], Type]] = [
    (lambda: pa.array(["1"]), INT64),
    (lambda: pa.array([True]), INT64),
    (lambda: pa.array([1]), Type("bool")),
    (lambda: pa.array(["1.5"]), FLOAT64),
    (lambda: pa.array([1]), STRING),
    (lambda: pa.array([b"a"]), STRING),
    (lambda: pa.array(["a"]), BINARY),
    (lambda: pa.array([1]), DATE),
    (lambda: pa.array([INSTANT]), DATE),
    (lambda: pa.array([date(2024, 1, 1)]), TIMESTAMP),
    (lambda: pa.array([1]), TIME),
    (lambda: pa.array([timedelta(1)]), TIME),
    (lambda: pa.array([[1]]), INT64),
]


@every_case(("make", "kind"), WRONG, ids=lambda value: str(value) if isinstance(value, Type) else "")
def test_a_column_of_another_family_is_refused(make: Callable[[], pa.Array], kind: Type) -> None:
    array = make()
    with pytest.raises(CodeError, match="cannot be read as") as caught:
        encode(array, kind, Dictionaries())
    assert caught.value.row == 0


@pytest.mark.parametrize(
    ("number", "given", "kind", "code"),
    [
        (1.0, pa.float64(), INT64, 1),
        (-(2.0**53), pa.float64(), INT64, -(2**53)),
        (2.0**24, pa.float32(), INT64, 2**24),
        (1.5, pa.float64(), decimal(10, 1), 15),
        (0.1, pa.float32(), decimal(10, 2), 10),
    ],
)
def test_a_double_is_a_number_where_nothing_is_lost(number: float, given: pa.DataType, kind: Type, code: int) -> None:
    assert encode(pa.array([number], given), kind, Dictionaries()).tolist() == [code]


@pytest.mark.parametrize(
    ("number", "given", "kind", "reason"),
    [
        (1.5, pa.float64(), INT64, "1.5 is not whole, and the column is int64"),
        (2.0**53 + 2, pa.float64(), INT64, "may have been rounded: a double is exact up to 9007199254740992"),
        (2.0**24 + 2, pa.float32(), INT64, "may have been rounded: a float is exact up to 16777216"),
        (math.nan, pa.float64(), INT64, "is not whole"),
        (1.55, pa.float64(), decimal(10, 1), "1.55 does not fit decimal(10,1)"),
        (0.1 + 0.2, pa.float64(), decimal(38, 20), "may have been rounded: a double keeps 15 digits"),
    ],
)
def test_a_double_that_may_not_be_the_number_is_refused(
    number: float, given: pa.DataType, kind: Type, reason: str
) -> None:
    with pytest.raises(CodeError) as caught:
        encode(pa.array([None, number], given), kind, Dictionaries())
    assert (caught.value.row, reason in caught.value.reason) == (1, True), caught.value.reason


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1), st.integers(0, 38), st.data())
def test_rescaling_a_decimal_is_exact_or_refused(numbers: list[int], scale: int, data: st.DataObject) -> None:
    to = decimal(data.draw(st.integers(1, 38)), 0)
    to = decimal(to.precision, data.draw(st.integers(0, to.precision)))
    values = [Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)) for number in numbers]
    rescaled = [Fraction(number, 10**scale) * 10**to.scale for number in numbers]
    fits = [abs(number) < 10**to.precision and number.denominator == 1 for number in rescaled]
    made = Dictionaries()
    array = pa.array(values, pa.decimal128(38, scale))
    if all(fits):
        assert decode(encode(array, to, made), to, made).to_pylist() == values
    else:
        with pytest.raises(CodeError) as caught:
            encode(array, to, made)
        assert caught.value.row == fits.index(False)
