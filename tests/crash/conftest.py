"""One runner for all tests of faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.runner import Runner


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner() as made:
        yield made
