"""No text makes the SQL front end fail in any way but the one users can read."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.sql import compile_sql
from tests.query.meaning import make_query, make_spec
from tests.query.test_sql_meaning import TEXTS
from tests.seeds import examples

SPEC = make_spec()
WORDS = sorted({word for text in TEXTS for word in text.replace("(", " ( ").replace(")", " ) ").split()})
WORDS += ["'", '"', "$1", "?", "LEFT JOIN", "OVER ()", "LIMIT 1", "[", "]", "{", "}", ";", "--", "/*", "::", "~", "§0§"]


def check(text: str) -> None:
    try:
        compile_sql(text, SPEC, make_query(text))
    except QueryProblems as found:
        assert found.problems
        for problem in found.problems:
            assert 0 <= problem.offset <= len(text)
            assert problem.message
            assert problem.hint


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=60))
@example("SELECT @")
@example("SELECT a FROM r WHERE a = '")
@example("\x00")
@example("SELECT * AS a FROM r")
@example("SELECT MAX() AS m FROM r")
@example("FROM SELECT a FROM r")
def test_arbitrary_text_is_compiled_or_refused(text: str) -> None:
    check(text)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_arbitrary_words_of_sql_are_compiled_or_refused(text: str) -> None:
    check("SELECT " + text)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXTS), st.data())
def test_a_query_with_one_word_exchanged_is_compiled_or_refused(text: str, data: st.DataObject) -> None:
    words = text.split()
    at = data.draw(st.integers(0, len(words) - 1))
    words[at] = data.draw(st.sampled_from(["", *WORDS]))
    check(" ".join(words))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 300 + "a" + ")" * 300 + " AS x FROM r",
        "SELECT " + "(" * 3000 + "a" + ")" * 3000 + " AS x FROM r",
        "SELECT " + "abs(" * 400 + "a" + ")" * 400 + " AS x FROM r",
        "SELECT a FROM r WHERE " + "NOT " * 3000 + "k",
        "SELECT a FROM r WHERE " + " AND ".join(f"a <> {i}" for i in range(2000)),
    ],
    ids=["brackets", "many brackets", "functions", "NOT", "AND"],
)
def test_deep_nesting_is_refused_as_such(text: str) -> None:
    with pytest.raises(QueryProblems) as caught:
        compile_sql(text, SPEC, make_query(text))
    assert [p.message for p in caught.value.problems] == ["the SQL is nested too deeply"]


def test_long_conjunctions_and_lists_are_compiled() -> None:
    conjunction = " AND ".join(f"a <> {i}" for i in range(150))
    values = ", ".join(map(str, range(2000)))
    text = f"SELECT a FROM r WHERE {conjunction} AND b IN ({values})"
    assert len(compile_sql(text, SPEC, make_query(text)).atoms[0].filters) == 151  # type: ignore[union-attr]
