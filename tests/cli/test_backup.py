"""`dynq backup` and `dynq restore`: there and back, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dynq_cli.cli.app import main

pytestmark = pytest.mark.usefixtures("bag_and_set")


def test_a_state_that_was_lost_is_restored_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "copy"]) == 0
    assert "at version 1" in capsys.readouterr().err
    shutil.rmtree(".dynq")
    assert main(["restore", "copy"]) == 0
    Path("R.1.csv").write_text("x,y\n3,5\n")
    assert main(["apply", "R.1.csv"]) == 0
    capsys.readouterr()
    assert main(["count", "-q", "bag"]) == 0
    assert main(["count", "-q", "bag", "-s", "copy"]) == 0
    assert capsys.readouterr().out.split() == ["4", "3"]


def test_what_was_copied_is_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "copy", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["version"], said["to"]) == (1, "copy")
    assert said["bytes"] == sum(p.stat().st_size for p in Path("copy").iterdir())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["backup", ".dynq"], 2),
        (["backup", ".dynq/copy"], 2),
        (["restore", ".dynq"], 2),
        (["restore", "nothing", "-s", "copy"], 10),
        (["backup", "copy", "-s", "nothing"], 10),
    ],
)
def test_what_cannot_be_copied_is_refused_and_nothing_is_there(command: list[str], code: int) -> None:
    before = sorted(Path.cwd().rglob("*"))
    assert main(command) == code
    assert sorted(Path.cwd().rglob("*")) == before
