"""A command that is asked to end does, wherever it is when the signal comes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

IN_A_FINALISER = """
import signal, time
from dynq_cli.cli.ending import terminable

class Cleared:
    def __del__(self):
        signal.raise_signal({number})
        time.sleep(0)

with terminable():
    try:
        Cleared()
        time.sleep(30)
        print("nobody came")
    except BaseException as error:
        {then}
        print("tidied up")
        raise
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
@pytest.mark.parametrize("then", ["pass", "signal.raise_signal({number})"])
def test_a_signal_within_a_finaliser_is_not_lost(number: signal.Signals, code: int, then: str) -> None:
    text = IN_A_FINALISER.format(number=int(number), then=then.format(number=int(number)))
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "tidied up\n"
    assert "ignored" not in run.stderr
    assert run.returncode == code


def test_other_errors_in_finalisers_are_reported_as_ever() -> None:
    text = IN_A_FINALISER.format(number="", then="pass").replace("signal.raise_signal()", "raise ValueError('odd')")
    text = text.replace("sleep(30)", "sleep(0)")
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "nobody came\n"
    assert "ValueError: odd" in run.stderr
