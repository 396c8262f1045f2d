"""`dynq rank`: the position of a row's first copy, the inverse of `dynq jth`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import UsageError
from dynq_cli.storage import positions
from tests.cli.positions_state import COPIES, expanded, lines, make_state, refused


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_state(tmp_path, monkeypatch)


def _rank(capsys: pytest.CaptureFixture[str], row: object, query: str) -> int:
    assert main(["rank", "--row", json.dumps(row), "-q", query]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return int(captured.out)


@pytest.mark.parametrize("query", ["bag", "set", "some"])
def test_the_rank_of_a_row_is_where_it_is_first(capsys: pytest.CaptureFixture[str], query: str) -> None:
    rows = expanded(capsys, query)
    for row in rows:
        assert _rank(capsys, row, query) == rows.index(row) + 1


def test_ranks_may_pass_63_bits(capsys: pytest.CaptureFixture[str]) -> None:
    ranks = [_rank(capsys, {"a": a, "b": b}, "huge") for a in (100, 200, 300) for b in (100, 200, 300)]
    assert sorted(ranks) == [i * COPIES**2 + 1 for i in range(9)]
    (row,) = lines(capsys, "jth", str(ranks[0]), "-q", "huge")
    assert row == {"a": 100, "b": 100}


def test_ranks_follow_the_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with dynq_cli.open() as view:
        view.apply(
            {"R": pa.table({"x": [2, 7], "s": ["c", "c"]}), "S": pa.table({"x": [7], "d": [pa.scalar(0, pa.date32())]})}
        )
    rows = expanded(capsys, "bag")
    assert len(rows) == 10
    for row in rows:
        assert _rank(capsys, row, "bag") == rows.index(row) + 1


@pytest.mark.parametrize(
    ("row", "code", "said"),
    [
        ('{"x": 2, "s": "b", "d": "2022-01-10"}', 3, "not in the result of bag"),
        ('{"x": 1, "s": "new", "d": "2022-01-08"}', 3, "not in the result of bag"),
        ('{"x": 1, "s": "a"}', 3, "no column `d`"),
        ('{"x": 1, "s": "a", "d": "soon"}', 3, "`d`"),
        ('{"x": 1, "s": "a", "d": "2022-01-08", "_count": 2}', 3, "`_count`"),
        ("{", 2, "no JSON"),
    ],
)
def test_a_row_that_is_not_there_has_no_rank(
    capsys: pytest.CaptureFixture[str], row: str, code: int, said: str
) -> None:
    assert said in refused(capsys, code, "rank", "-q", "bag", "--row", row)


def test_the_row_and_the_query_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--row" in refused(capsys, 2, "rank", "-q", "bag")
    assert "bag, set, ordered, some, huge, none" in refused(capsys, 2, "rank", "--row", "{}")
    refused(capsys, 10, "rank", "--row", "{}", "-s", "nowhere")


def test_rows_cannot_be_read_on_when_the_state_has_moved_on() -> None:
    with dynq_cli.open() as view:
        rows = positions.page(view, "set", limit=2)
        view.apply({"R": pa.table({"x": [1], "s": ["z"]})})
        with pytest.raises(UsageError, match="version 1 cannot be read on"):
            list(rows)
        assert sum(batch.num_rows for batch in positions.page(view, "set")) == 8
