"""`dynq sample`: rows at random positions of `enum --expand`, none of them twice, the same for the same seed."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.positions_state import expanded, lines, make_state, refused


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_state(tmp_path, monkeypatch)


@pytest.mark.parametrize("query", ["bag", "set"])
def test_a_sample_of_everything_is_the_whole_result(capsys: pytest.CaptureFixture[str], query: str) -> None:
    rows = expanded(capsys, query)
    drawn = lines(capsys, "sample", str(len(rows)), "-q", query)
    assert Counter(map(json.dumps, drawn)) == Counter(map(json.dumps, rows))


def test_the_same_seed_draws_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    first = lines(capsys, "sample", "5", "--seed", "1", "-q", "set")
    assert lines(capsys, "sample", "5", "--seed", "1", "-q", "set") == first
    assert lines(capsys, "sample", "2", "--seed", "1", "-q", "set") == first[:2]
    others = [lines(capsys, "sample", "5", "--seed", str(seed), "-q", "set") for seed in range(2, 6)]
    assert any(other != first for other in others)


def test_without_a_seed_every_row_is_drawn_sooner_or_later(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {json.dumps(row) for row in expanded(capsys, "set")}
    seen = set()
    for _ in range(200):  # one of six rows is missed by all draws once in 10^15 runs
        seen |= {json.dumps(row) for row in lines(capsys, "sample", "1", "-q", "set")}
        if seen == rows:
            break
    assert seen == rows


def test_a_result_past_63_bits_can_be_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = lines(capsys, "sample", "300", "--seed", "4", "-q", "huge")
    assert {(row["a"], row["b"]) for row in drawn} == {(a, b) for a in (100, 200, 300) for b in (100, 200, 300)}


def test_no_rows_of_an_empty_result_can_be_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "sample", "0", "-q", "none") == []
    assert "the result of none has 0 rows" in refused(capsys, 3, "sample", "1", "-q", "none")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["9"], 3, "9 rows cannot be drawn without drawing one twice: the result of bag has 8 rows"),
        ([], 2, "N"),
        (["--", "-1"], 2, "'N'"),
        (["2", "--seed", "x"], 2, "--seed"),
        (["2", "-q", "nobody"], 2, "no query nobody"),
        (["2", "-o", "out.xlsx"], 2, ".parquet .csv .jsonl .arrow"),
        (["2", "-s", "nowhere"], 10, "no state"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, said: str
) -> None:
    before = sorted(os.listdir())
    assert said in refused(capsys, code, "sample", "-o", "rows.csv", "-q", "bag", *args)
    assert sorted(os.listdir()) == before
