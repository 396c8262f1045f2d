"""One runner for all tests of faults."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.runner import Runner
from tests.crash.scenes import ELSEWHERE, prepare


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner() as made:
        yield made


@pytest.fixture(scope="session")
def prepared(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folders that scenes start from."""
    folder = tmp_path_factory.mktemp("crash") / "prepared"
    prepare(runner, folder)
    yield folder
    shutil.rmtree(ELSEWHERE, ignore_errors=True)
