"""Every spec in `broken_specs/` fails with exactly the text that stands beside it.

`NAME.yaml` is the spec, `NAME.err` what a user reads. After a change of wording, rewrite the
texts with DYNQ_UPDATE_GOLDEN=1 and read the difference as a user would.
"""

from __future__ import annotations

import contextlib
import os
import re
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


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The error text of every spec, by its name."""
    return {str(path.relative_to(CORPUS).with_suffix("")): error_text(path) for path in SPECS}


def test_every_broken_spec_is_refused_with_the_expected_text(texts: dict[str, str]) -> None:
    if os.environ.get("DYNQ_UPDATE_GOLDEN") == "1":
        for name, text in texts.items():
            (CORPUS / f"{name}.err").write_text(text, encoding="utf-8")
    assert [name for name, text in texts.items() if not text] == [], "accepted"
    expected = {name: (CORPUS / f"{name}.err").read_text(encoding="utf-8") for name in texts}
    assert texts == expected


PROBLEM = re.compile(r"(?P<file>[^:]+):[1-9]\d*:[1-9]\d*:.*\S")


def malformed(name: str, text: str) -> list[str]:
    """Lines that are neither a problem with its place nor a hint, and problems without a hint."""
    lines = text.splitlines()
    hints = [line for line in lines if line.startswith("  hint: ")]
    problems = [line for line in lines if not line.startswith("  hint: ")]
    found = [line for line in hints if not line.removeprefix("  hint: ").strip()]
    for line in problems:
        place = PROBLEM.fullmatch(line)
        if place is None or place["file"] != f"{Path(name).name}.yaml":
            found.append(line)
    if len(hints) != len(problems):
        found.append(f"{len(problems)} problems, {len(hints)} hints")
    return found


def test_every_problem_names_its_place_and_what_to_write(texts: dict[str, str]) -> None:
    assert {name: found for name, text in texts.items() if (found := malformed(name, text))} == {}


def test_a_problem_without_its_place_or_hint_is_found() -> None:
    assert malformed("a", "a.yaml:1:2: oh\n  hint: write b") == []
    assert malformed("a", "b.yaml:1:2: oh\n  hint: write b") == ["b.yaml:1:2: oh"]
    assert malformed("a", "a.yaml:0:2: oh\n  hint: write b") == ["a.yaml:0:2: oh"]
    assert malformed("a", "a.yaml:1:2: oh") == ["1 problems, 0 hints"]


def test_no_expected_text_is_left_without_its_spec() -> None:
    assert [e.name for e in CORPUS.rglob("*.err") if not e.with_suffix(".yaml").exists()] == []
