"""`dynq enum --where`: rows with given values, and conditions that are refused."""

from __future__ import annotations

import pytest

from dynq_cli.cli.app import main

pytestmark = pytest.mark.usefixtures("bag_and_set")


def test_where_gives_the_rows_with_these_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "-q", "bag", "--where", "x = 1"]) == 0
    assert capsys.readouterr().out == "x,_count\n1,2\n"
    assert main(["enum", "-q", "bag", "--where", "x = 1", "--expand", "--at", "1"]) == 0
    assert capsys.readouterr().out == "x\n1\n1\n"
    assert main(["enum", "-q", "set", "--where", "x = 7"]) == 0
    assert capsys.readouterr().out == "x\n"


@pytest.mark.parametrize(
    ("condition", "code"),
    [("x > 1", 2), ("x = 1 OR x = 2", 2), ("x = 1 AND x = 2", 2), ("", 2), ("x = y", 2), ("q = 1", 3), ("x = 'a'", 3)],
)
def test_a_condition_that_where_has_not_is_refused(condition: str, code: int) -> None:
    assert main(["enum", "-q", "bag", "--where", condition]) == code
