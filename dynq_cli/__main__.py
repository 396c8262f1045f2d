"""`python -m dynq_cli` is the `dynq` command, and so is the script that installing makes.

It ends at once. Taking Python apart first would abort it now and then: threads of Arrow that have read ahead in a
file that was refused may still have to give back what they read.
"""

import atexit
import os
import sys
from typing import NoReturn

from dynq_cli.cli import output
from dynq_cli.cli.app import main
from dynq_cli.cli.process import begin_small


def start() -> NoReturn:
    """Run the command line of this process, and end it."""
    begin_small(sys.argv[1:])
    code = main()
    atexit._run_exitfuncs()
    output.flush()
    os._exit(code)


if __name__ == "__main__":
    start()
