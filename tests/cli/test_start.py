"""The process of a command loads what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

WATCH = "import sys, atexit; atexit.register(lambda: sys.stderr.write(f'pandas: {\"pandas\" in sys.modules}'))\n"
COMMAND = "sys.argv = ['dynq', *sys.argv[1:]]; from dynq_cli.__main__ import start; sys.exit(start())"


def test_no_command_waits_for_pandas(tmp_path: Path) -> None:
    (tmp_path / "R.csv").write_text("x,y\n1,a\n2,b\n")
    done = subprocess.run(
        [sys.executable, "-c", WATCH + COMMAND, "infer", "R.csv"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.endswith("pandas: False")) == (0, True), done.stderr


@pytest.mark.parametrize(("given", "used"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")])
def test_arrow_takes_its_memory_from_the_system_unless_told_otherwise(given: dict[str, str], used: str) -> None:
    code = "from dynq_cli.cli.process import begin_small; begin_small([])\nimport pyarrow as pa\n"
    code += "print(pa.default_memory_pool().backend_name)"
    environment = {"PYTHONPATH": str(ROOT), **given}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == used
