"""What all tests share: the repository's root, and runs of the `dynq` command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from dynq_cli.engine.kernels import reached
from tests.cpu_time import CpuTime

ROOT = Path(__file__).parent.parent
Dynq = Callable[..., "subprocess.CompletedProcess[str]"]

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Folders whose tests share something that takes long to make: one process runs all of them.
TOGETHER = ("crash", "mirrors")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuTime(), "cpu-time")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.parent.name
        if folder in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(folder))


_told: set[str] = set()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start without notes of kernels that earlier runs reached; workers of pytest-xdist share those of this run."""
    if not hasattr(session.config, "workerinput") and not reached.is_recording():
        reached.forget()


@pytest.fixture(autouse=True)
def kernels_are_listed() -> Iterator[None]:
    """Fail a test that reaches a kernel, in any process, with arguments for which none is built."""
    yield
    new = set() if reached.is_recording() else reached.unlisted() - _told
    _told.update(new)
    if new:
        lines = "\n  ".join(sorted(new))
        pytest.fail(f"the list of kernels lacks what was called; `make kernels` adds it:\n  {lines}", pytrace=False)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def dynq(tmp_path: Path) -> Dynq:
    """Run a command line in an empty directory, as a user would; environment variables as keywords."""

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DYNQ_")}
        return subprocess.run(
            [sys.executable, "-m", "dynq_cli", *args],
            cwd=tmp_path,
            env={**clean, "PYTHONPATH": str(ROOT), **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return run
