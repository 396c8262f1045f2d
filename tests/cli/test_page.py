"""`dynq page`: a stretch of `enum --expand`, by offset or beside a row."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from tests.cli.positions_state import COPIES, expanded, lines, make_state, refused

THERE = '{"x": 1, "s": "a", "d": "2022-01-08"}'
ABSENT = '{"x": 2, "s": "b", "d": "2022-01-10"}'


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_state(tmp_path, monkeypatch)


@pytest.mark.parametrize("query", ["bag", "set", "ordered", "some", "none"])
def test_pages_are_stretches_of_the_expanded_enumeration(capsys: pytest.CaptureFixture[str], query: str) -> None:
    rows = expanded(capsys, query)
    for offset in range(len(rows) + 1):
        for limit in (0, 1, 3, 100):
            found = lines(capsys, "page", "--offset", str(offset), "--limit", str(limit), "-q", query)
            assert found == rows[offset : offset + limit]
    assert lines(capsys, "page", "-q", query) == rows


def test_a_page_has_100_rows_where_no_limit_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    offset = 2 * COPIES**2 - 1
    rows = lines(capsys, "page", "--offset", str(offset), "-q", "huge")
    assert len(rows) == 100
    assert rows[0] != rows[1] == rows[99], "the last copy of one row, then copies of the next"


@pytest.mark.parametrize("query", ["bag", "set", "ordered"])
def test_pages_one_after_the_other_are_the_whole_result(capsys: pytest.CaptureFixture[str], query: str) -> None:
    rows = expanded(capsys, query)
    found = lines(capsys, "page", "--limit", "3", "-q", query)
    seen: dict[str, None] = {}
    while found:
        assert json.dumps(found[0]) not in seen, "a page after a row goes on behind all of its copies"
        seen |= dict.fromkeys(map(json.dumps, found))
        found = lines(capsys, "page", "--limit", "3", "--after", json.dumps(found[-1]), "-q", query)
    assert list(seen) == list(dict.fromkeys(map(json.dumps, rows)))


@pytest.mark.parametrize("query", ["bag", "set", "ordered"])
def test_before_a_row_are_the_last_rows_up_to_it(capsys: pytest.CaptureFixture[str], query: str) -> None:
    rows = expanded(capsys, query)
    for row in rows:
        end = max(i for i, other in enumerate(rows) if other == row) + 1
        for limit in (0, 1, 2, 100):
            found = lines(capsys, "page", "--before", json.dumps(row), "--limit", str(limit), "-q", query)
            assert found == rows[max(end - limit, 0) : end]


@pytest.mark.parametrize(
    ("row", "skipped"),
    [
        ({"s": "c"}, 0),
        ({"s": "b"}, 2),
        ({"s": "ab"}, 2),
        ({"s": "a", "x": 1}, 6),
        ({"s": "a", "x": 1, "d": "2022-01-08"}, 4),
        ({"s": "a", "x": 1, "d": "2021-12-31"}, 2),
        ({"s": "", "x": 1, "d": "2021-12-31"}, 7),
        ({"s": None}, 8),
    ],
)
def test_in_an_order_a_page_begins_beside_a_row_that_need_not_be_there(
    capsys: pytest.CaptureFixture[str], row: dict[str, object], skipped: int
) -> None:
    rows = expanded(capsys, "ordered")
    assert [r["s"] for r in rows] == ["b"] * 2 + ["a"] * 5 + [None]
    assert lines(capsys, "page", "--after", json.dumps(row), "-q", "ordered") == rows[skipped:]
    before = lines(capsys, "page", "--before", json.dumps(row), "--limit", "2", "-q", "ordered")
    assert before == rows[max(skipped - 2, 0) : skipped]


def test_a_place_in_an_order_has_its_first_columns(capsys: pytest.CaptureFixture[str]) -> None:
    for row in ('{"x": 1}', '{"s": "a", "d": "2022-01-08"}', "{}"):
        assert "the first of the columns s, x, d" in refused(capsys, 2, "page", "--after", row, "-q", "ordered")


def test_a_file_of_an_empty_page_has_columns_and_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", "--offset", "8", "-q", "bag", "-o", "out.csv"]) == 0
    assert capsys.readouterr().err == "dynq: wrote 0 rows to out.csv\n"
    assert Path("out.csv").read_text() == "x,s,d\n"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--offset", "9"], 3, "9 rows cannot be skipped: the result of bag has 8 rows"),
        (["--offset", "9", "--limit", "0"], 3, "cannot be skipped"),
        (["--after", ABSENT], 3, "order_by"),
        (["--before", ABSENT], 3, "order_by"),
        (["--after", '{"x": 1}'], 3, "no column `s`"),
        (["--after", "{"], 2, "no JSON"),
        (["--after", THERE, "--before", THERE], 2, "one place"),
        (["--after", THERE, "--offset", "0"], 2, "one place"),
        (["--offset", "-1"], 2, "--offset"),
        (["--limit", "-1"], 2, "--limit"),
        (["-q", "nobody"], 2, "no query nobody"),
        (["-o", "out.xlsx"], 2, ".parquet .csv .jsonl .arrow"),
        (["-s", "nowhere"], 10, "no state"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, said: str
) -> None:
    before = sorted(os.listdir())
    assert said in refused(capsys, code, "page", "-o", "rows.csv", "-q", "bag", *args)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("query", ["bag", "set", "ordered"])
def test_a_page_of_an_old_version_has_the_rows_of_that_version(capsys: pytest.CaptureFixture[str], query: str) -> None:
    before = expanded(capsys, query)
    assert main(["mark", "then"]) == 0
    capsys.readouterr()
    with dynq_cli.open(".dynq") as state:
        state.apply(pa.table({"x": [2], "s": ["z"]}), "R")
    for offset in (0, 2):
        then = lines(capsys, "page", "--offset", str(offset), "-q", query, "--at", "then")
        if query == "ordered":
            assert then == before[offset:]
        else:
            assert len(then) == len(before) - offset and all(row in before for row in then)
    now = lines(capsys, "page", "-q", query)
    assert now != before and len(now) == len(before) + 1
    then = lines(capsys, "page", "-q", query, "--at", "then")
    assert sorted(map(str, then)) == sorted(map(str, before))
