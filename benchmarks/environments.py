"""Virtual environments of their own for what cannot stand beside dynq: other versions, other engines.

    python benchmarks/environments.py NAME...

An environment is made once, under `benchmarks/.environments`, and made again when what it needs changes here.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / ".environments"
NEEDS = {
    # The extension with the generator is one for this very version of DuckDB; dynq uses a later one.
    "tpcds": (
        "duckdb==1.5.5",
        "duckdb-extensions==1.5.5",
        "duckdb-extension-tpcds==1.5.5",
        "duckdb-extension-tpch==1.5.5",
    ),
    "pathway": ("pathway==0.33.0",),
    "flink": ("apache-flink==2.3.0",),
}


class CannotInstallError(Exception):
    """An environment that could not be made, with what pip or Python said."""


def python_of(name: str) -> Path:
    """The interpreter of an environment, whether it is there or not."""
    return FOLDER / name / "bin" / "python"


def is_there(name: str) -> bool:
    stamp = FOLDER / name / "installed"
    return stamp.exists() and stamp.read_text() == "\n".join(NEEDS[name])


def install(name: str) -> Path:
    """The interpreter of an environment, which is made if it is not there; processes take turns."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there(name):
            _make(name)
    return python_of(name)


def _make(name: str) -> None:
    target = FOLDER / name
    shutil.rmtree(target, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(target)])
    pip = [str(python_of(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, *NEEDS[name]])
    (target / "installed").write_text("\n".join(NEEDS[name]))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("ERROR")]
        raise CannotInstallError(" ".join(said) or f"{' '.join(command)} ended with {done.returncode}")


def main() -> int:
    for name in sys.argv[1:]:
        if name not in NEEDS:
            print(f"no environment {name}; there is {', '.join(NEEDS)}", file=sys.stderr)
            return 2
        if not is_there(name):
            print(f"installing {' '.join(NEEDS[name])} beside dynq", flush=True)
        try:
            install(name)
        except CannotInstallError as error:
            print(f"not installed: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
