"""A call that the system refuses, any one of them, is a clean error; the state is whole and the next command works.

`make crash` has every way in which each call can fail; without it, each call fails in one way.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.faults import Fault, Kind
from tests.crash.runner import Ended, Runner
from tests.crash.scenes import SCENES, Scene, is_tried, named, strike, verify

ALL_KINDS = "DYNQ_CRASH" in os.environ
WRITES = ("write", "pwrite")


def to_try(calls: tuple[str, ...]) -> list[Fault]:
    """Every call fails: of writes in one way after the other, or, with ALL_KINDS, in every way."""
    found = []
    times: Counter[str] = Counter()
    for at, call in enumerate(calls, start=1):
        times[call] += 1
        if call.startswith("open") and times[call] > 1 and not ALL_KINDS:
            continue  # the manifest is read again and again
        kinds: list[Kind] = ["EIO"]
        if call.startswith(WRITES) or ALL_KINDS:
            kinds.append("ENOSPC")
        if call.startswith(WRITES):
            kinds.append("short")
        if not call.startswith("open") and (ALL_KINDS or at % 7 == 0):
            kinds.append("full")
        found += [Fault(kind, at) for kind in (kinds if ALL_KINDS else kinds[at % len(kinds) :][:1])]
    return found


def is_clean(ended: Ended, call: str, scene: Scene) -> None:
    """Nothing went wrong that was noticed, or one error was said, with a code that the documentation has."""
    said = ended.first.err
    assert "Traceback" not in said
    assert "internal error" not in said
    assert ended.status in (*scene.codes, *_codes(call)), ended
    if ended.status:
        assert any(line.startswith("dynq: ") for line in said.splitlines()), ended


def _codes(call: str) -> tuple[int, ...]:
    if not call.startswith("open") or ".dynq" in call or "open copy" in call:
        return (0, 1)
    return (2,) if call.endswith(".yaml") else (0, 1, 3)  # a change log that cannot be read is rejected


# A quarantine on another file system makes the calls of one beside the inbox, and those of a copy.
_TRIED = [scene for scene in SCENES if ALL_KINDS or scene.aside != "elsewhere"]


@pytest.mark.parametrize("scene", _TRIED, ids=lambda scene: scene.name)
def test_any_failing_call_is_a_clean_error(scene: Scene, runner: Runner, prepared: Path, tmp_path: Path) -> None:
    undisturbed = strike(runner, scene, prepared, tmp_path / "undisturbed")
    assert undisturbed.status == max(scene.codes), undisturbed
    calls = undisturbed.calls

    def check(fault: Fault) -> None:
        folder = tmp_path / f"{fault.kind}-{fault.at}"
        ended = strike(runner, scene, prepared, folder, fault)
        with named(calls[fault.at - 1]):
            is_clean(ended, calls[fault.at - 1], scene)
            verify(runner, scene, folder, ended)
        shutil.rmtree(folder)

    runner.each([fault for fault in to_try(calls) if is_tried(scene, fault.at, calls[fault.at - 1])], check)
