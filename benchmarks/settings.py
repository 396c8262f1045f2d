"""What a run of the benchmarks is given: sizes, repetitions, yardsticks; and the change logs it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from processes import output_of, say, script
from yardstick import Yardsticks

CHUNKS = 10
DELETES = 0.1


@dataclass(frozen=True)
class Settings:
    rows: int
    runs: int
    startup_runs: int
    yardsticks: Yardsticks | None
    data: Path

    def logs(self, shape: str, rows: int) -> Path:
        """A directory with the logs of star or chain, as the yardstick's generator writes them where it is there."""
        folder = self.data / f"{shape}-{rows}"
        if not self.yardsticks:
            return self.own_logs(shape, rows)
        return _written(folder, self.yardsticks.streams(shape, folder, rows, CHUNKS, DELETES))

    def own_logs(self, shape: str, rows: int, per_key: int = 100, chunks: int = CHUNKS) -> Path:
        """A directory with the logs of any shape, by the project's own generator."""
        folder = self.data / f"own-{shape}-{rows}-{per_key}"
        options = ("--rows", rows, "--per-key", per_key, "--chunks", chunks, "--deletes", DELETES)
        return _written(folder, script("workloads.py", shape, folder, *options))


def _written(folder: Path, command: list[str]) -> Path:
    """Run a generator, once per directory and in a process of its own, which takes its memory with it."""
    if not folder.exists():
        say(f"  writing {folder.name}")
        output_of(command)
    return folder
