"""What all tests share: the repository's root, and runs of the `dynq` command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
Dynq = Callable[..., "subprocess.CompletedProcess[str]"]


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
            timeout=120,
        )

    return run
