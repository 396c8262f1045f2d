"""A test over many cases tries every one, names all that fail, and leaves fixtures to pytest."""

from __future__ import annotations

import inspect

import pytest

from tests.every_case import every_case

TRIED: list[int] = []


@every_case("number", range(5))
def tried_with_a_fixture(request: pytest.FixtureRequest, number: int) -> None:
    TRIED.append(number)
    assert number % 2 == 0, f"{number} is odd"


@every_case("left, right", [(1, 1), (1, 2)])
def tried_in_pairs(left: int, right: int) -> None:
    if left != right:
        pytest.fail("they differ")


def test_all_that_fail_are_listed_and_all_are_tried(request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"(?s)2 of 5 cases:\n--- 1\n.*1 is odd.*--- 3\n3 is odd"):
        tried_with_a_fixture(request=request)
    assert TRIED == [0, 1, 2, 3, 4]
    assert list(inspect.signature(tried_with_a_fixture).parameters) == ["request"]


def test_cases_of_several_values_have_their_label() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"1 of 2 cases:\n--- 1-2\n"):
        tried_in_pairs()
