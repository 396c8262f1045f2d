"""The type that texts suggest, and that it does not depend on how they are cut into pieces."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dynq_cli.io.sniff import NOTHING, Guess, sniff
from dynq_cli.spec.types import parse_type
from tests.every_case import every_case


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@every_case(
    ("values", "expected"),
    [
        (["1", "-20", "0"], "int64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["9223372036854775808"], "decimal(19,0)"),
        (["1" * 39], "string"),
        (["00123", "5"], "string"),
        (["+5"], "string"),
        (["12.50", "3.00", "7"], "decimal(18,2)"),
        (["12345678901234567890.12"], "decimal(22,2)"),
        (["1.5", "2.25"], "float64"),
        (["1e3", "2"], "float64"),
        (["1", "NaN", "-inf"], "float64"),
        (["12e4567"], "string"),
        (["2024-02-29"], "date"),
        (["2023-02-29"], "string"),
        (["2024-01-31", "2024-01-31T10:15:00Z"], "timestamp"),
        (["2024-01-31 10:15:00.123456+02:00"], "timestamp"),
        (["10:15:00", "23:59:59.5"], "time"),
        (["1:30"], "string"),
        (["true", "FALSE"], "bool"),
        (["1", ""], "string"),
        (["1", "2024-01-31"], "string"),
        (["NULL"], "string"),
    ],
)
def test_texts_suggest_a_type(values: list[str], expected: str) -> None:
    assert sniff(texts(*values)).type == parse_type(expected)[0]


def test_null_says_nothing_about_the_type() -> None:
    assert sniff(texts(None, None)) == NOTHING
    assert sniff(texts(None, "1", None)) == sniff(texts("1"))


VALUES = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-999, max_value=999).map(str),
    st.floats().map(str),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.times().map(str),
    st.sampled_from(["true", "false", "", "-0", "00", "0.0", "1e5", ".5", "5.", "inf", None]),
    st.text(max_size=3),
)


@given(st.lists(VALUES, max_size=12), st.data())
def test_the_guess_is_the_same_however_the_values_are_cut(values: list[str | None], data: st.DataObject) -> None:
    whole = sniff(texts(*values))
    cut = data.draw(st.integers(0, len(values)))
    assert sniff(texts(*values[cut:]), sniff(texts(*values[:cut]))) == whole
    assert sniff(texts(*values[:cut]), sniff(texts(*values[cut:]))) == whole


@every_case(
    ("guess", "declared", "fits"),
    [
        (Guess("int", 3), "decimal(5,2)", True),
        (Guess("int", 4), "decimal(5,2)", False),
        (Guess("int", 3), "float64", True),
        (Guess("fixed", 3, 2), "decimal(10,1)", False),
        (Guess("float"), "float32", True),
        (Guess("date"), "timestamp", True),
        (Guess("timestamp"), "date", False),
        (Guess("text"), "int64", False),
        (Guess("int", 3), "string", True),
        (NOTHING, "binary", True),
    ],
)
def test_texts_fit_a_declared_type_if_they_can_be_read_as_it(guess: Guess, declared: str, fits: bool) -> None:
    assert guess.fits(parse_type(declared)[0]) is fits
