"""States that are killed again and again, at random moments: what one kill left is there when the next one comes.

`DYNQ_CRASH=N` is the number of kills. Every chain of kills has a seed, which a failure names.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from tests.crash.faults import Fault
from tests.crash.history import History, Rows
from tests.crash.runner import Runner
from tests.crash.scenes import Consumer, left_behind, seen

KILLS = int(os.environ.get("DYNQ_CRASH", "40"))
PER_STATE = 20
# About as many calls and seconds as a command takes.
CALLS = {"init": 60, "apply": 90, "run": 150, "prune": 20, "enum": 18}
SECONDS = 0.15
KINDS = ["apply", "apply", "run", "run", "prune", "enum"]


class Chain:
    """One state on its way through kills."""

    def __init__(self, runner: Runner, folder: Path, seed: int) -> None:
        self._runner = runner
        self._folder = folder
        self._chance = Random(seed)
        self._history = History(seed, 0)
        self._version: int | None = None
        self._shows: dict[int, Rows] = {}
        self._consumer = Consumer(folder, self._shows, self._history.seen[0])
        folder.mkdir()
        self._history.write(folder)

    def go(self, kills: int) -> None:
        while kills:
            kills -= self._disturb()
            self._look()
        init = [] if self._version is not None else [self._history.init]
        done = self._runner.run(self._folder, *init, ["run", "logs"], ["prune"])
        assert not any(told.code for told in done.told), done
        self._look()
        assert self._version == len(self._history.logs)
        self._consumer.has_all(self._version)
        assert not left_behind(self._folder / "out")
        assert not left_behind(self._folder / ".dynq")

    def _disturb(self) -> bool:
        """Run some command; whether it was killed."""
        kind = "init" if self._version is None else self._chance.choice(KINDS)
        if kind in ("apply", "run"):
            self._history.extend(self._chance.randrange(3))
            self._history.put(self._folder / "logs", self._history.logs)
        command = {"init": self._history.init, "enum": self._history.enum, "prune": ["prune"]}.get(kind, [kind, "logs"])
        if self._chance.random() < 0.3:
            ended = self._runner.run(self._folder, command, kill_after=self._chance.random() * SECONDS)
        else:
            at = self._chance.randrange(1, CALLS[kind])
            fault = Fault(self._chance.choice(["kill", "tear"]), at)
            ended = self._runner.run(self._folder, command, fault=fault)
        assert ended.is_killed or ended.status == 0, ended
        return ended.is_killed

    def _look(self) -> None:
        """The state is at a version that was there, or is new, and never an earlier one than before."""
        self._shows.update(enumerate(self._history.seen))
        self._consumer.take()
        if not (self._folder / ".dynq/CURRENT").exists():
            assert self._version is None
            return
        version, rows = seen(self._runner, self._folder)
        assert version >= (self._version or 0)
        assert rows == self._shows[version]
        self._version = version


def test_kills_at_random_moments_one_after_the_other(runner: Runner, tmp_path: Path) -> None:
    seeds = range(-(-KILLS // PER_STATE))
    runner.each(seeds, lambda seed: Chain(runner, tmp_path / f"seed-{seed}", seed).go(min(PER_STATE, KILLS)))
