"""A table for a terminal: aligned, short, and harmless whatever the values are."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from dynq_cli.io.results.table import text_table


def _shown(columns: dict[str, list[object]], most: int = 100) -> str:
    batch = pa.record_batch(columns)
    return text_table(iter([batch]), batch.schema, most).text


def test_numbers_stand_to_the_right_and_texts_to_the_left() -> None:
    shown = _shown({"id": [1, 1000], "name": ["Ann", None], "price": [Decimal("2.50"), Decimal("10.00")]})
    assert shown == ("  id  name  price\n────  ────  ─────\n   1  Ann    2.50\n1000  NULL  10.00")


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    lines = _shown({"s": ["漢字", "e\u0301", "abcd"], "t": ["x", "x", "x"]}).splitlines()
    assert lines[2:] == ["漢字  x", "e\u0301     x", "abcd  x"]


def test_long_values_are_cut_and_no_value_steers_the_terminal() -> None:
    lines = _shown({"s": ["x" * 1000, "漢" * 1000, "\x1b[31mred\nline"]}).splitlines()
    assert lines[1] == "─" * 40
    assert lines[2] == "x" * 39 + "…"
    assert lines[3] == "漢" * 19 + "…"
    assert lines[4] == "\\x1b[31mred\\nline"


def test_no_more_rows_are_shown_than_asked_for() -> None:
    batch = pa.record_batch({"x": list(range(60))})
    for most, more in ((0, True), (100, True), (119, True), (120, False), (500, False)):
        shown = text_table(iter([batch, batch]), batch.schema, most)
        assert (shown.rows, shown.has_more) == (min(most, 120), more)
        assert len(shown.text.splitlines()) == 2 + shown.rows


def test_a_result_without_columns_is_shown_as_its_rows() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    assert text_table(iter([batch]), batch.schema, 100).text == "()"
    assert text_table(iter([]), batch.schema, 100).text == "no rows"


def test_a_table_fits_its_terminal() -> None:
    batch = pa.record_batch({"id": [12345678], "a": ["x" * 40], "b": ["y" * 30], "_count": [1]})
    for width in range(36, 100):
        shown = text_table(iter([batch]), batch.schema, 5, width)
        lines = shown.text.splitlines()
        assert max(map(len, lines)) <= width
        assert "12345678" in lines[2] and lines[0].split()[-1] == "_count", "numbers and the last column are whole"
        assert shown.left_out == (0 if width >= 8 + 10 + 10 + 6 + 6 else 1)
    assert text_table(iter([batch]), batch.schema, 5, 36).text.splitlines()[2] == f"12345678  {'x' * 9}…  …       1"
    assert "x" * 39 in text_table(iter([batch]), batch.schema, 5, None).text


def test_of_many_columns_the_first_and_the_last_are_shown() -> None:
    batch = pa.record_batch({f"column_{i}": [i] for i in range(50)})
    shown = text_table(iter([batch]), batch.schema, 5, 60)
    assert shown.text.splitlines()[0] == "column_0  column_1  column_2  column_3  …  column_49"
    assert shown.left_out == 45
    narrow = text_table(iter([batch]), batch.schema, 5, 5)
    assert narrow.text.splitlines()[0] == "column_0  …  column_49"
