"""After TAB a shell is offered the queries and marks of the state that the command line names."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from dynq_cli.cli.app import main

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
pytestmark = pytest.mark.usefixtures("bag_and_set")

OFFERED = {
    "dynq count -q ": ["bag", "set"],
    "dynq count -q s": ["set"],
    "dynq diff --since m": ["monday", "march"],
    "dynq enum --at mo": ["monday"],
    "dynq unmark mar": ["march"],
    "dynq count --state gone -q ": [],
    "dynq coun": ["count"],
}


def test_queries_and_marks_are_offered(dynq: Dynq) -> None:
    for mark in ("monday", "march"):
        assert main(["mark", mark, "--quiet"]) == 0
    for line, wanted in OFFERED.items():
        number = len(line.split(" ")) - 1
        done = dynq(_DYNQ_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(number), _TYPER_COMPLETE_TEST="1")
        assert (done.returncode, done.stdout.split()) == (0, wanted), (line, done.stderr)
