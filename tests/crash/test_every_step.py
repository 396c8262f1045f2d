"""A process that is killed before any step, or within any write, leaves the version before or the one after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.crash.faults import Fault
from tests.crash.runner import Runner
from tests.crash.scenes import SCENES, Scene, is_tried, left_behind, named, strike, verify


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_kill_at_any_step_leaves_before_or_after(
    scene: Scene, runner: Runner, prepared: Path, tmp_path: Path
) -> None:
    undisturbed = strike(runner, scene, prepared, tmp_path / "undisturbed")
    assert undisturbed.status == max(scene.codes), undisturbed
    calls = undisturbed.calls
    tried = [(at, call) for at, call in enumerate(calls, start=1) if is_tried(scene, at, call)]
    # Being killed before a file is opened to be read is being killed before the next change.
    faults = [Fault("kill", at) for at, call in tried if not call.startswith(("open", "mmap"))]
    faults += [Fault("tear", at) for at, call in tried if call.startswith(("write", "pwrite"))]

    def check(fault: Fault) -> None:
        folder = tmp_path / f"{fault.kind}-{fault.at}"
        ended = strike(runner, scene, prepared, folder, fault)
        assert ended.is_killed, ended
        with named(calls[fault.at - 1]):
            verify(runner, scene, folder, ended)
        shutil.rmtree(folder)

    runner.each(faults, check)


def test_what_a_killed_init_left_goes_with_the_next_one(runner: Runner, prepared: Path, tmp_path: Path) -> None:
    init = SCENES[0]
    calls = strike(runner, init, prepared, tmp_path / "undisturbed").calls
    at = next(at for at, call in enumerate(calls, start=1) if "CURRENT.tmp" in call)
    killed = tmp_path / "killed"
    assert strike(runner, init, prepared, killed, Fault("kill", at)).is_killed
    assert left_behind(killed)
    assert runner.run(killed, init.command).status == 0
    assert not left_behind(killed)
