"""Values are read exactly or refused with their row: texts of CSV, values of JSON, arrays of Arrow."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynq_cli.io.logs.columns import fields, null_mask, take, texts, typed
from dynq_cli.io.logs.model import RawColumn
from dynq_cli.spec.types import Type, parse_type
from dynq_cli.values.convert import CodeError, arrow_type
from tests.every_case import every_case

EPOCH = dt.datetime(1970, 1, 1)


def kind(text: str) -> Type:
    return parse_type(text)[0]


def from_texts(values: list[str | None], of: str) -> list[Any]:
    array = typed(pa.array(values, pa.string()), kind(of), is_text=True)
    assert array.type == arrow_type(kind(of))
    found: list[Any] = array.to_pylist()
    return found


def from_json(values: list[Any], of: str) -> list[Any]:
    found: list[Any] = typed(values, kind(of), is_text=False).to_pylist()
    return found


def refusal(values: list[Any] | pa.Array, of: str, *, is_text: bool) -> CodeError:
    column = pa.array(values, pa.string()) if is_text else values
    with pytest.raises(CodeError) as caught:
        typed(column, kind(of), is_text=is_text)
    return caught.value


@every_case(
    ("of", "good"),
    [
        ("int64", {"0": 0, "-0": 0, "007": 7, "9223372036854775807": 2**63 - 1, "-9223372036854775807": 1 - 2**63}),
        ("int8", {"127": 127, "-128": -128}),
        ("decimal(5,2)", {"1.5": Decimal("1.50"), "999.990": Decimal("999.99"), "-.5": Decimal("-0.50"), "5.": 5}),
        ("decimal(38,18)", {"0E-18": Decimal(0), "1E-18": Decimal("1E-18"), "1e+3": Decimal(1000)}),
        ("float64", {"0.1": 0.1, "1e308": 1e308, "-inf": -math.inf, "Infinity": math.inf, "4.9e-324": 5e-324}),
        ("float32", {"0.1": float(np.float32(0.1)), "inf": math.inf}),
        ("bool", {"true": True, "FALSE": False, "True": True}),
        ("date", {"2024-02-29": dt.date(2024, 2, 29), "1582-10-10": dt.date(1582, 10, 10)}),
        (
            "time",
            {
                "10:20": dt.time(10, 20),
                "10:20:30.5": dt.time(10, 20, 30, 500_000),
                "00:00:00.0000010000": dt.time(0, 0, 0, 1),
            },
        ),
        (
            "timestamp",
            {
                "2024-01-01": dt.datetime(2024, 1, 1),
                "2024-01-01 10:20": dt.datetime(2024, 1, 1, 10, 20),
                "2024-01-01T10:20:30.123456Z": dt.datetime(2024, 1, 1, 10, 20, 30, 123456),
                "2024-01-01T00:20:30+05:30": dt.datetime(2023, 12, 31, 18, 50, 30),
                "2024-01-01T10:20:30-0800": dt.datetime(2024, 1, 1, 18, 20, 30),
                "2024-01-01T10:20:30+05": dt.datetime(2024, 1, 1, 5, 20, 30),
                "2024-01-01T10:20:30.123456000": dt.datetime(2024, 1, 1, 10, 20, 30, 123456),
                "1500-03-01T00:00:00": dt.datetime(1500, 3, 1),
            },
        ),
        ("binary", {"": b"", "aGk=": b"hi"}),
        ("string", {"": "", " x ": " x ", "NULL": "NULL"}),
    ],
)
def test_a_text_is_read_exactly(of: str, good: dict[str, Any]) -> None:
    assert from_texts([*good, None], of) == [*good.values(), None]
    for text, value in good.items():
        assert from_texts([text], of) == [value]


@every_case(
    ("of", "bad"),
    [
        ("int64", [" 5", "5 ", "+5", "0x1F", "1.0", "1e3", "--5", "", "-", "9223372036854775808", "٣", "5\n"]),
        ("int8", ["128", "-129"]),
        ("decimal(5,2)", ["1.234", "1000", "+5", "1e100", "1e-100", ".", "-", "e5", "NaN", "1 ", "1e99999", "0x10"]),
        ("decimal(38,0)", ["1" + "0" * 38, "9" * 50]),
        ("float64", ["+1", " 1", "1e400", "-1e400", "nan(1)", "0x1p3", "1e", "", "infinit", "1_000", "1,5"]),
        ("float32", ["1e39"]),
        ("bool", ["t", "1", "yes", "", "true "]),
        (
            "date",
            ["2023-02-29", "2024-1-1", "2024-01-32", "20240101", "2024-01-01T00:00", "10000-02-30", "9999999-01-01"],
        ),
        ("time", ["24:00", "10:60", "10:20:60", "1:20", "10", "10:20:30.1234567", "10:20:30.1234560001", "10:20Z"]),
        (
            "timestamp",
            [
                "2024-01-01T10",
                "2024-01-01T10:20:60",
                "2023-02-29T10:20",
                "2024-01-01T10:20:30.1234567",
                "2024-01-01T10:20:30.1234560001Z",
                "2024-01-01T10:20:30 Z",
                "2024-01-01T10:20:30+99:99",
                "2024-01-01Z",
                "1704067200",
                "999999-01-01T00:00",
            ],
        ),
        ("binary", ["aGk", "a b=", "é"]),
    ],
)
def test_a_wrong_text_is_refused_with_its_row(of: str, bad: list[str]) -> None:
    fine = {"bool": "true", "date": "2024-01-01", "time": "10:20", "timestamp": "2024-01-01", "binary": "aGk="}.get(
        of, "1"
    )
    for text in bad:
        refused = refusal([fine, None, fine, text, fine, text], of, is_text=True)
        assert refused.row == 3, text
        assert any(said in refused.reason for said in ("is not a", "is out of the range of", "does not fit")), text


@every_case(
    ("of", "good"),
    [
        ("int64", [(5, 5), ("5", 5), (Decimal("1.0"), 1), (Decimal("1e3"), 1000), (2**63 - 1, 2**63 - 1)]),
        ("decimal(20,2)", [(5, 5), ("5.10", Decimal("5.10")), (Decimal("0.01"), Decimal("0.01")), (10**17, 10**17)]),
        (
            "float64",
            [(5, 5.0), (Decimal("0.1"), 0.1), ("Infinity", math.inf), ("-Infinity", -math.inf), (math.inf, math.inf)],
        ),
        ("bool", [(True, True), (False, False)]),
        ("string", [("x", "x"), ("", "")]),
        ("binary", [("aGk=", b"hi")]),
        ("date", [("2024-02-29", dt.date(2024, 2, 29))]),
        ("timestamp", [("2024-02-29T01:02:03Z", dt.datetime(2024, 2, 29, 1, 2, 3))]),
    ],
)
def test_a_value_of_json_is_read_exactly(of: str, good: list[tuple[Any, Any]]) -> None:
    assert from_json([value for value, _ in good] + [None], of) == [expected for _, expected in good] + [None]
    for value, expected in good:
        assert from_json([None, value], of) == [None, expected]


@every_case(
    ("of", "bad"),
    [
        ("int64", [Decimal("1.5"), 2**63, True, "x", [1], {}, Decimal("1e999999999"), math.nan, 10**4000]),
        ("int8", [128, "128"]),
        ("decimal(5,2)", [Decimal("0.001"), 1000, True, math.inf, Decimal("1e999999999"), Decimal("1e-999999999")]),
        ("float64", [True, 10**400, Decimal("1e400"), "x", []]),
        ("bool", [1, 0, "true"]),
        ("string", [5, True, {}, "\ud800"]),
        ("binary", [5, "aGk"]),
        ("date", [19000, "x", Decimal("1.5")]),
        ("timestamp", [1704067200000, ""]),
    ],
)
def test_a_wrong_value_of_json_is_refused_with_its_row(of: str, bad: list[Any]) -> None:
    for value in bad:
        assert refusal([None, value, value], of, is_text=False).row == 1


def test_nan_is_read_from_text_and_json() -> None:
    assert math.isnan(from_texts(["NaN"], "float64")[0])
    assert all(math.isnan(value) for value in from_json(["NaN", math.nan, "nan"], "float64"))


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_integers_come_back_from_text_and_json(values: list[int | None]) -> None:
    assert from_texts([None if v is None else str(v) for v in values], "int64") == values
    assert from_json(values, "int64") == values
    assert from_json([None if v is None else str(v) for v in values], "int64") == values


@given(st.data(), st.integers(1, 38))
def test_decimals_come_back_from_text_and_json(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, precision))
    digits = st.integers(-(10**precision) + 1, 10**precision - 1)
    values = [Decimal(f"{v}E-{scale}") for v in data.draw(st.lists(digits))]
    of = f"decimal({precision},{scale})"
    plain = [format(v, "f") for v in values]
    assert from_texts(list(plain), of) == values
    assert from_texts([str(v) for v in values], of) == values  # as Java writes it: 0E-18
    assert from_json(values, of) == values
    assert from_json(plain, of) == values


@given(st.lists(st.floats(allow_nan=False)), st.lists(st.floats(allow_nan=False, width=32)))
def test_floats_come_back_from_their_shortest_text(doubles: list[float], singles: list[float]) -> None:
    assert from_texts([repr(v) for v in doubles], "float64") == doubles
    assert from_texts([str(np.float32(v)) for v in singles], "float32") == singles
    assert from_json([Decimal(repr(v)) if math.isfinite(v) else str(v) for v in doubles], "float64") == doubles


@given(st.lists(st.dates()), st.lists(st.times()), st.lists(st.datetimes()), st.sampled_from("T "), st.booleans())
def test_dates_and_times_come_back_from_iso_text(
    dates: list[dt.date], times: list[dt.time], moments: list[dt.datetime], between: str, zoned: bool
) -> None:
    assert from_texts([v.isoformat() for v in dates], "date") == dates
    assert from_texts([v.isoformat() for v in times], "time") == times
    assert from_texts([v.isoformat(between) + "Z" * zoned for v in moments], "timestamp") == moments
    assert from_json([v.isoformat(between) for v in moments], "timestamp") == moments


@given(
    st.lists(
        st.tuples(st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29)), st.none() | st.integers(-1439, 1439))
    )
)
def test_a_zone_is_taken_off_and_none_is_utc(moments: list[tuple[dt.datetime, int | None]]) -> None:
    spelled, expected = [], []
    for moment, east in moments:
        zone = "" if east is None else f"{'-' if east < 0 else '+'}{abs(east) // 60:02}:{abs(east) % 60:02}"
        spelled.append(moment.isoformat() + zone)
        expected.append(moment - dt.timedelta(minutes=east or 0))
    assert from_texts(list(spelled), "timestamp") == expected


@given(st.lists(st.integers(-11_000_000, 11_000_000)), st.lists(st.integers(-(10**18), 10**18)))
def test_any_year_that_arrow_writes_is_read(days: list[int], moments: list[int]) -> None:
    """Arrow writes years up to 32767; those past 9999 and before 0 are read one by one."""
    dates = pa.array(days, pa.date32())
    assert typed(dates.cast(pa.string()), kind("date"), is_text=True).equals(dates)
    instants = pa.array([m % (6 * 10**17) for m in moments], pa.timestamp("us"))
    assert typed(instants.cast(pa.string()), kind("timestamp"), is_text=True).equals(instants)


@given(st.lists(st.binary()), st.lists(st.booleans() | st.none()))
def test_bytes_and_booleans_come_back(blobs: list[bytes], flags: list[bool | None]) -> None:
    spelled = [base64.b64encode(blob).decode() for blob in blobs]
    assert from_texts(list(spelled), "binary") == blobs == from_json(spelled, "binary")
    assert (
        from_texts([None if f is None else str(f).lower() for f in flags], "bool") == flags == from_json(flags, "bool")
    )


@given(
    st.lists(st.text()),
    st.sampled_from(["int64", "decimal(9,3)", "float64", "date", "time", "timestamp", "bool", "binary"]),
)
def test_any_text_is_a_value_or_a_refusal(values: list[str], of: str) -> None:
    column = pa.array([v.encode("utf-8", "replace").decode() for v in values], pa.string())
    try:
        assert len(typed(column, kind(of), is_text=True)) == len(values)
    except CodeError as error:
        assert 0 <= error.row < len(values)


def test_a_slice_of_texts_is_read_from_its_own_start() -> None:
    column = pa.array(["x", "1", "2", "y"])
    assert typed(column[1:3], kind("int64"), is_text=True).to_pylist() == [1, 2]
    with pytest.raises(CodeError) as caught:
        typed(column[1:], kind("int64"), is_text=True)
    assert caught.value.row == 2


def test_arrays_of_the_right_type_are_not_copied() -> None:
    for array, of in [
        (pa.array([1, None], pa.int64()), "int64"),
        (pa.array(["x", None]).dictionary_encode(), "string"),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), "decimal(5,2)"),
    ]:
        assert typed(array, kind(of), is_text=False) is array


def test_arrays_of_other_types_are_converted_without_loss_or_refused() -> None:
    assert typed(pa.array([1, 2], pa.int32()), kind("int64"), is_text=False).type == pa.int64()
    assert refusal(pa.array([1, 300], pa.int32()), "int8", is_text=False).row == 1
    assert refusal(pa.array(["1"]), "int64", is_text=False).row == 0
    assert refusal(pa.array([0, 90_000_000_000], pa.time64("us")), "time", is_text=False).row == 1


@every_case(
    "column",
    [
        ["a", None, "b"],
        pa.array(["a", None, "b"]),
        pa.array(["a", None, "b"], pa.large_string()),
        pa.array(["a", None, "b"], pa.string_view()),
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.array(["a", None, "b"], pa.large_string()).dictionary_encode(),
        pa.compute.run_end_encode(pa.array(["a", None, "b"])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["a", None, "b"])),
    ],
)
def test_texts_and_their_nulls_are_found_in_any_encoding(column: Any) -> None:
    assert texts(column).equals(pa.array(["a", None, "b"]))
    assert null_mask(column).tolist() == [False, True, False]
    if not isinstance(column, (pa.RunEndEncodedArray, pa.StringViewArray)):
        assert texts(take(column, np.array([2, 0, 0]))).to_pylist() == ["b", "a", "a"]


def test_what_is_no_text_is_refused_as_text() -> None:
    columns: list[RawColumn] = [[1], [None, {}], pa.array([1])]
    for column in columns:
        with pytest.raises(CodeError):
            texts(column)
    assert texts(pa.nulls(2)).to_pylist() == texts([None, None]).to_pylist() == [None, None]


def test_fields_of_structs_and_objects_are_null_where_the_whole_is() -> None:
    objects = [{"a": 1}, None, {"a": 2, "b": "x"}]
    assert fields(objects) == {"a": [1, None, 2], "b": [None, None, "x"]}
    structs: dict[str, Any] | None = fields(pa.array(objects))
    assert structs is not None
    assert {name: column.to_pylist() for name, column in structs.items()} == fields(objects)
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], names=["a"], mask=pa.array([True, False]))
    structs = fields(hidden)
    assert structs is not None
    assert structs["a"].to_pylist() == [None, 2]
    assert fields([1]) is None
    assert fields(pa.array([1])) is None
    assert fields([None]) == {}
