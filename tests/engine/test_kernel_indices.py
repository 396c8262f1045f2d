"""Kernels take indices as they are; those of other functions are not touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERNELS = """
from dynq_cli.engine.kernels.cache import kernel

@kernel
def as_it_is(array, index):
    return array[index]

@kernel
def calls_it(array, index):
    return as_it_is(array, index), array[index]
"""
CALLS = """
import numpy as np, numba
from kernels import as_it_is, calls_it
view = np.arange(10)[5:]
plain = numba.njit(lambda array, index: array[index])
print(as_it_is(view, 1), as_it_is(view, -1), *calls_it(view, -1), plain(view, -1))
"""


def test_only_kernels_take_indices_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    run = subprocess.run(
        [sys.executable, "-c", CALLS],
        env={**clean, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.stdout.split() == ["6", "4", "4", "4", "9"], run.stderr
