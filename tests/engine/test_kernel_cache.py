"""Compiled kernels are kept, never stale, and never in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CALLER = """
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.callee import inner

@bare
def outer(x: int) -> int:
    return inner(x) + 1
"""
CALLEE = """
from dynq_cli.engine.kernels.cache import bare

@bare
def inner(x: int) -> int:
    return x * {factor}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two kernels of its own around the real modules that compile and keep them."""
    kernels = tmp_path / "package" / "dynq_cli" / "engine" / "kernels"
    kernels.mkdir(parents=True)
    for directory in (kernels, kernels.parent, kernels.parent.parent):
        (directory / "__init__.py").touch()
    for name in ("cache", "compiling", "entry", "linking", "native"):
        shutil.copy(ROOT / "dynq_cli" / "engine" / "kernels" / f"{name}.py", kernels)
    shutil.copy(ROOT / "dynq_cli" / "engine" / "installed.py", kernels.parent)
    (kernels / "caller.py").write_text(CALLER)
    (kernels / "callee.py").write_text(CALLEE.format(factor=2))
    return tmp_path / "package"


def run(package: Path, cache_home: Path | str, code: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=package,
        env={**clean, "PYTHONPATH": str(package), "XDG_CACHE_HOME": str(cache_home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )


CALL = """
import sys
from dynq_cli.engine.kernels.caller import outer
print(outer(10), 'numba' in sys.modules)
"""
DEEP = """
from dynq_cli.engine.kernels.cache import bare

@bare(forceinline=True)
def least(a, i):
    a[i] -= 1

@bare
def deeper(a, i):
    if i > 0:
        least(a, i)

@bare
def deep(a):
    for i in range(len(a)):
        deeper(a, i)
    least(a, 0)

@bare
def top(a):
    deeper(a, 1)
    deep(a)

@bare(_nrt=True)
def through_numba(a):
    top(a)
    return list(a)
"""
CALL_DEEP = """
import sys
import numpy as np
from dynq_cli.engine.kernels.deep import *
a = np.zeros(3, np.int64)
top(a)
print(a.tolist(), 'numba' in sys.modules, through_numba(a))
"""
HITS = """
from dynq_cli.engine.kernels.caller import outer
print(outer.dispatcher(10), sum(outer.dispatcher.stats.cache_hits.values()))
"""


def test_a_second_run_compiles_nothing_and_needs_no_numba(package: Path, tmp_path: Path) -> None:
    assert run(package, tmp_path / "cache", CALL).stdout.split() == ["21", "True"]
    assert run(package, tmp_path / "cache", CALL).stdout.split() == ["21", "False"]


def test_numba_finds_what_it_has_compiled_before(package: Path, tmp_path: Path) -> None:
    assert run(package, tmp_path / "cache", HITS).stdout.split() == ["21", "0"]
    assert run(package, tmp_path / "cache", HITS).stdout.split() == ["21", "1"]


def test_parts_are_linked_whatever_calls_them(package: Path, tmp_path: Path) -> None:
    (package / "dynq_cli" / "engine" / "kernels" / "deep.py").write_text(DEEP)
    for needs_numba in (True, False):
        found = run(package, tmp_path / "cache", CALL_DEEP).stdout
        assert found == f"[-1, -2, -1] {needs_numba} [-2, -4, -2]\n"


def test_an_edit_of_a_called_kernel_is_noticed(package: Path, tmp_path: Path) -> None:
    assert run(package, tmp_path / "cache", CALL).stdout.split() == ["21", "True"]
    (package / "dynq_cli" / "engine" / "kernels" / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(package, tmp_path / "cache", CALL).stdout.split() == ["31", "True"]


def test_without_a_writable_directory_kernels_work_with_one_warning(package: Path) -> None:
    ran = run(package, "/dev/null/x", CALL)
    assert ran.stdout.split() == ["21", "True"]
    (warning,) = ran.stderr.splitlines()
    assert warning.startswith("compiled kernels cannot be kept in /dev/null/x/dynq/kernels/")
    assert "XDG_CACHE_HOME" in warning


def test_compiling_is_announced_once_per_version(package: Path, tmp_path: Path) -> None:
    code = f"import logging\nlogging.basicConfig(level='INFO', format='%(message)s')\n{CALL}"
    assert run(package, tmp_path / "cache", code).stderr.startswith("compiling kernels once for this version")
    assert run(package, tmp_path / "cache", code).stderr == ""


def test_a_setting_that_changes_compiled_code_has_kernels_of_its_own(package: Path, tmp_path: Path) -> None:
    checked = f"import os\nos.environ['NUMBA_BOUNDSCHECK'] = '1'\n{CALL}"
    assert run(package, tmp_path / "cache", CALL).stdout.split() == ["21", "True"]
    assert run(package, tmp_path / "cache", checked).stdout.split() == ["21", "True"]


def test_kernels_of_versions_long_unused_are_removed(package: Path, tmp_path: Path) -> None:
    kernels = tmp_path / "cache" / "dynq" / "kernels"
    old, recent = kernels / "old", kernels / "recent"
    for directory, days in ((old, 31), (recent, 29)):
        directory.mkdir(parents=True)
        (directory / "file").touch()
        used = time.time() - days * 86400
        os.utime(directory, (used, used))
    run(package, tmp_path / "cache", CALL)
    assert not old.exists()
    assert (recent / "file").exists()


def test_the_numba_settings_of_the_program_around_are_left_alone(package: Path, tmp_path: Path) -> None:
    code = f"import os, numba\nnumba.config.CACHE_DIR = 'mine'{CALL}print(numba.config.CACHE_DIR, len(os.environ))"
    counted = run(package, tmp_path / "cache", "import os; print(len(os.environ))").stdout.strip()
    assert run(package, tmp_path / "cache", code).stdout.split() == ["21", "True", "mine", counted]


def test_kernels_that_are_switched_off_are_plain_functions(package: Path, tmp_path: Path) -> None:
    code = "import os\nos.environ['NUMBA_DISABLE_JIT'] = '1'" + CALL + "print(type(outer).__name__)"
    assert run(package, tmp_path / "cache", code).stdout.split() == ["21", "False", "function"]
    assert not (tmp_path / "cache").exists()
