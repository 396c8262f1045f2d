"""A PostgreSQL for all tests of a process, with a database of its own for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.mirrors.targets import DeltaTarget, DuckTarget, PostgresTarget, Target
from tests.spark.postgres import PASSWORD, Postgres, server, started

_numbers = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if server() is None:
        # Whoever can install it has to; on other machines the tests say why they do not run.
        (pytest.fail if os.geteuid() == 0 else pytest.skip)("not installed: apt-get install postgresql")
    with started() as running:
        yield running


@pytest.fixture(params=["PostgreSQL", "DuckDB", "Delta"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A place for mirrors, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    if request.param == "DuckDB":
        return DuckTarget(tmp_path / "mirrors.duckdb")
    if request.param == "Delta":
        return DeltaTarget(tmp_path / "tables")
    running: Postgres = request.getfixturevalue("postgres")
    name = f"mirrors_{next(_numbers)}"
    running.run(f"CREATE DATABASE {name}")
    return PostgresTarget(f"postgresql://postgres:{quote(PASSWORD, safe='')}@127.0.0.1:{running.port}/{name}")
