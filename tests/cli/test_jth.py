"""`dynq jth`: the rows at positions of `enum --expand`, in the order asked, or nothing at all."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dynq_cli.cli.app import main
from tests.cli.positions_state import COPIES, expanded, lines, make_state, refused


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_state(tmp_path, monkeypatch)


@pytest.mark.parametrize(("query", "many"), [("bag", 8), ("set", 6)])
def test_the_jth_row_is_that_of_the_expanded_enumeration(
    capsys: pytest.CaptureFixture[str], query: str, many: int
) -> None:
    rows = expanded(capsys, query)
    assert len(rows) == many
    for j, row in enumerate(rows, 1):
        assert lines(capsys, "jth", str(j), "-q", query) == [row]
    asked = [many, 1, 3, 3, 2]
    assert lines(capsys, "jth", *map(str, asked), "-q", query) == [rows[j - 1] for j in asked]


def test_a_pipe_gets_csv_without_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "--expand", "-q", "bag"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert main(["jth", "8", "2", "-q", "bag"]) == 0
    assert capsys.readouterr().out.splitlines() == [header, rows[7], rows[1]]
    assert header == "x,s,d"


def test_a_file_has_the_rows_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jth", "2", "1", "-q", "set", "-o", "out.parquet"]) == 0
    assert capsys.readouterr() == ("", "dynq: wrote 2 rows to out.parquet\n")
    found = pq.read_table("out.parquet").to_pylist()
    assert [{**row, "d": str(row["d"])} for row in found] == expanded(capsys, "set")[1::-1]


def test_positions_may_pass_63_bits(capsys: pytest.CaptureFixture[str]) -> None:
    each, last = COPIES**2, 9 * COPIES**2
    first, again, second, end = lines(capsys, "jth", "1", str(each), str(each + 1), str(last), "-q", "huge")
    assert first == again != second
    assert end not in (first, second)
    assert str(last) in refused(capsys, 3, "jth", str(last + 1), "-q", "huge").replace(",", "")


def test_a_row_without_columns_has_a_position(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "jth", "1", "-q", "some") == [{}]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["0"], 3, "no row at position 0: the result of bag has 8 rows"),
        (["9"], 3, "no row at position 9"),
        (["--", "-1"], 3, "no row at position -1"),
        (["1", "2", "9"], 3, "no row at position 9"),
        ([str(10**50)], 3, "no row at position"),
        (["-q", "none", "1"], 3, "the result of none has 0 rows"),
        ([], 2, "'J"),
        (["one"], 2, "'J'"),
        (["1.5"], 2, "'J'"),
        (["1", "-o", "out.xlsx"], 2, ".parquet .csv .jsonl .arrow"),
        (["1", "-o", "out.csv", "--json"], 2, "two forms"),
        (["1", "-q", "nobody"], 2, "no query nobody"),
        (["1", "-s", "nowhere"], 10, "no state"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, said: str
) -> None:
    before = sorted(os.listdir())
    assert said in refused(capsys, code, "jth", "-o", "rows.csv", "-q", "bag", *args)
    assert sorted(os.listdir()) == before
