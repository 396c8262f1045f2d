"""The words of `_change_type` are read as they are, however they are mixed and wherever they lie."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynq_cli.engine.arrow_changes import kinds_of
from dynq_cli.engine.ingest import RowError
from dynq_cli.values import change_kinds as k
from tests.every_case import every_case

WORDS = sorted(k.WORDS)
runs = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(1, 40)), max_size=100)


@given(runs, st.integers(0, 30), st.booleans())
def test_runs_of_words_are_the_kinds_they_say(given_runs: list[tuple[str, int]], skipped: int, in_chunks: bool) -> None:
    words = [word for word, many in given_runs for _ in range(many)]
    column = pa.chunked_array([words[:5], words[5:]] if in_chunks else [words], pa.string())[skipped:]
    wanted = np.array([k.WORDS[word] for word in words[skipped:]], np.int8)
    assert np.array_equal(kinds_of(column), wanted)


@every_case("bad", ["inser", "insert ", "", None, "delet\u00e9"])
@every_case("at", [0, 7, 99])
def test_the_first_word_that_is_none_is_named(bad: str | None, at: int) -> None:
    words = ["insert"] * 50 + ["delete"] * 50
    with pytest.raises(RowError) as told:
        kinds_of(pa.chunked_array([[*words[:at], bad, *words[at + 1 :]]], pa.string()))
    assert (told.value.row, told.value.column) == (at, "_change_type")


def test_words_of_any_case_are_read() -> None:
    assert kinds_of(pa.chunked_array([["DELETE"] * 20 + ["Insert"] * 20])).tolist() == [k.DELETE] * 20 + [k.INSERT] * 20


def test_bytes_that_are_no_text_are_no_word() -> None:
    damaged = pa.array([b"insert"] * 20 + [b"\xff\xfe\xff\xfe\xff\xfe"], pa.binary()).view(pa.string())
    with pytest.raises((RowError, UnicodeDecodeError, pa.ArrowInvalid)):
        kinds_of(pa.chunked_array([damaged]))
