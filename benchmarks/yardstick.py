"""The yardstick: hand-written triggers in plain dicts, run as they are from where they lie.

`streams.py` writes the change logs of a workload and `dict_triggers.py` replays them. They are no part
of the project: the directory is given with `--yardsticks`, or found beside the project at
`../shared/yardsticks`. Without it the benchmarks write their own logs of the same shape and show no ratios
against the dicts.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from processes import ROOT, BenchmarkError

BESIDE = ROOT.parent / "shared" / "yardsticks"


@dataclass(frozen=True)
class Yardsticks:
    directory: Path

    def streams(self, workload: str, folder: Path, rows: int, chunks: int, deletes: float) -> list[str]:
        """The command that writes a workload's logs."""
        sizes = ["--rows", str(rows), "--chunks", str(chunks), "--deletes", str(deletes)]
        return [sys.executable, str(self.directory / "streams.py"), workload, "-o", str(folder), *sizes]

    def triggers(self, workload: str, folder: Path) -> list[str]:
        """The command that replays logs: changes_per_s, enum_rows_per_s, peak_mb, rows."""
        return [sys.executable, str(self.directory / "dict_triggers.py"), workload, str(folder)]


def find_yardsticks(given: Path | None) -> Yardsticks | None:
    """The yardsticks in the directory given, or beside the project; None where there are none."""
    directory = given or BESIDE
    if all((directory / name).is_file() for name in ("streams.py", "dict_triggers.py")):
        return Yardsticks(directory.resolve())
    if given:
        raise BenchmarkError(f"{given} has no streams.py and dict_triggers.py: leave --yardsticks out to do without")
    return None
