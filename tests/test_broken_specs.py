"""Every spec in `broken_specs/` fails with exactly the text that stands beside it.

`NAME.yaml` is the spec, `NAME.err` what a user reads. After a change of wording, rewrite the
texts with DYNQ_UPDATE_GOLDEN=1 and read the difference as a user would.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from dynq_cli.errors import SpecError
from dynq_cli.query.compile import compile_file

CORPUS = Path(__file__).parent / "broken_specs"
SPECS = sorted(CORPUS.rglob("*.yaml"))


def error_text(path: Path) -> str:
    """What a user reads who compiles the spec from its own directory; empty if all is well."""
    with contextlib.chdir(path.parent):
        try:
            compile_file(path.name)
        except SpecError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("path", SPECS, ids=lambda path: str(path.relative_to(CORPUS).with_suffix("")))
def test_broken_spec_is_refused_with_the_expected_text(path: Path) -> None:
    text = error_text(path)
    assert text, "the spec was accepted"
    golden = path.with_suffix(".err")
    if os.environ.get("DYNQ_UPDATE_GOLDEN") == "1":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: str(path.relative_to(CORPUS).with_suffix("")))
def test_every_problem_names_its_place_and_what_to_write(path: Path) -> None:
    problems = hints = 0
    for line in error_text(path).splitlines():
        if line.startswith("  hint: "):
            hints += 1
            assert len(line) > len("  hint: ")
        else:
            problems += 1
            file, row, column, message = line.split(":", 3)
            assert file == path.name
            assert int(row) >= 1
            assert int(column) >= 1
            assert message.strip()
    assert hints == problems


def test_no_expected_text_is_left_without_its_spec() -> None:
    assert [e.name for e in CORPUS.rglob("*.err") if not e.with_suffix(".yaml").exists()] == []
