"""Runs that kill themselves: a process that has imported everything, and makes a copy of itself for each run.

A line of stdin has the directory to run in, and the step before which the run ends, 0 for none; or, after `after`, the
milliseconds that it may take. A line of stdout has the steps that it made, or `killed`.

A *step* is a call, of a Python or C function, in the modules that keep mirrors, or of a method of theirs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from dynq_cli.session import mirrors
from dynq_cli.session.run import run

COUNTED = ("/io/tables/", "/session/mirrors.py", "/query/duck.py")


def _counting(at: int) -> Any:
    seen = 0

    def event(frame: FrameType, kind: str, _: object) -> None:
        nonlocal seen
        if kind in ("call", "c_call") and any(part in frame.f_code.co_filename for part in COUNTED):
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
            _steps[0] = seen

    return event


_steps = [0]


def _run(folder: str, at: int, milliseconds: float | None, told: int) -> None:
    os.chdir(folder)
    if milliseconds is not None:
        timer = threading.Timer(milliseconds / 1000, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
    else:
        sys.setprofile(_counting(at))
    run("state", "inbox")
    sys.setprofile(None)
    os.write(told, str(_steps[0]).encode())
    os._exit(0)


def main() -> None:
    assert mirrors.MARKS
    import deltalake  # noqa: F401
    import duckdb  # noqa: F401
    import psycopg  # noqa: F401

    for line in sys.stdin:
        folder, *what = line.rstrip("\n").split("\t")
        mine, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _run(folder, int(what[0]) if len(what) == 1 else 0, float(what[1]) if len(what) > 1 else None, told)
            finally:
                os._exit(1)
        os.close(told)
        _, status = os.waitpid(child, 0)
        said = os.read(mine, 99).decode()
        os.close(mine)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.write(("killed" if killed else said or f"failed with status {status}") + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
