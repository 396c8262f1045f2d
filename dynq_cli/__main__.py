"""`python -m dynq_cli` is the `dynq` command, and so is the script that installing makes.

Arrow imports pandas, where that is installed, when it first makes an array from Python values: a third of a second for
nothing, since no command uses it but `extract`, whose Spark does. So a process that is this command does without.

It ends at once, too. Taking Python apart first would abort it now and then: threads of Arrow that have read ahead in a
file that was refused may still have to give back what they read.
"""

import atexit
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

from dynq_cli.cli import output
from dynq_cli.cli.app import main


class _WithoutPandas:
    """As if pandas were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def start() -> NoReturn:
    """Run the command line of this process, and end it."""
    if "extract" not in sys.argv[1:]:
        sys.meta_path.insert(0, _WithoutPandas())
    code = main()
    atexit._run_exitfuncs()
    output.flush()
    os._exit(code)


if __name__ == "__main__":
    start()
