"""An installed wheel needs neither numba nor a compiler, and its first command keeps nothing for the second."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)])
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", str(folder)])
    run([str(folder / "bin" / "python"), *PIP, "install", str(wheel)])
    return folder


def run(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DYNQ_KERNELS_CPU")}
    ran = subprocess.run(
        command, env={**clean, **env}, cwd=ROOT.parent, capture_output=True, text=True, check=False, timeout=900
    )
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}"
    return ran


def test_the_wheel_is_for_one_platform_and_every_python(wheel: Path) -> None:
    assert "-py3-none-" in wheel.name and not wheel.name.endswith("-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"dynq_cli/engine/kernels/{name}" for name in ("kernels.so", "signatures.txt", "table.py")} <= names


def test_the_demo_runs_without_numba_and_without_a_compiler(environment: Path, tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    alone = {"PATH": str(environment / "bin"), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    needed = "import importlib.util as u; print(u.find_spec('numba'), u.find_spec('llvmlite'))"
    assert run([str(environment / "bin" / "python"), "-c", needed]).stdout == "None None\n"
    ran = run([str(environment / "bin" / "dynq"), "demo", str(tmp_path / "demo")], **alone)
    assert "compil" not in ran.stderr
    assert list(home.iterdir()) == [], "nothing is kept for the next command"
