"""A process that dies anywhere in `apply` leaves the version before or the version after, whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from dynq_cli.storage import commit
from dynq_cli.storage.state import open
from tests.conftest import ROOT
from tests.storage.dying import STEPS, Died, dying_after
from tests.storage.states import small_batch, small_live, small_rows, small_state


@pytest.mark.parametrize("with_snapshot", [False, True], ids=["version", "version and snapshot"])
def test_dying_before_any_step_leaves_before_or_after(tmp_path: Path, with_snapshot: bool) -> None:
    small_state(tmp_path / "made", 4).close()
    seen = set()
    for steps in range(200):
        folder = tmp_path / f"state-{steps}"
        shutil.copytree(tmp_path / "made" / "state", folder)
        state = open(folder)
        small_rows(state)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commit, "snapshot_is_due", lambda *_, **__: with_snapshot)
            dying_after(patch, steps, STEPS)
            try:
                state.apply(small_batch(5))
                died = False
            except Died:
                died = True
        version = open(folder).version
        seen.add(version)
        for survivor in (open(folder), state):
            assert small_rows(survivor) == small_rows(small_live(version))
            assert survivor.version == version
        open(folder).apply(small_batch(version + 1))
        assert small_rows(open(folder)) == small_rows(small_live(version + 1))
        if not died:
            break
    assert seen == {4, 5}
    assert not died, "all steps were tried"


CHILD = """\
import sys
from pathlib import Path
from dynq_cli.storage import commit
from dynq_cli.storage.state import open
from tests.storage.states import small_batch
commit.DUE_SECONDS = float(sys.argv[2])
commit.snapshot_is_due = lambda *held, ending: commit.replay_seconds(*held) > commit.DUE_SECONDS
state = open(Path(sys.argv[1]))
version = state.version
while True:
    version += 1
    state.apply(small_batch(version))
    sys.stdout.write(f"{version}\\n")
    sys.stdout.flush()
"""


def test_kill_leaves_every_version_that_was_reported_and_nothing_in_between(tmp_path: Path) -> None:
    small_state(tmp_path, 1).close()
    folder, chance = tmp_path / "state", Random(1)
    for turn in range(12):
        due = "0.0003" if turn % 2 else "1000"
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), due],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        reported = int(child.stdout.readline())
        time.sleep(chance.random() * 0.05)
        child.kill()
        rest = child.stdout.read().split("\n")[:-1]
        child.wait()
        reported = int(rest[-1]) if rest else reported
        state = open(folder)
        assert reported <= state.version <= reported + 1
        assert small_rows(state) == small_rows(small_live(state.version))
