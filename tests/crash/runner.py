"""Runs of the real command line in processes that die or meet failing calls, cheap enough for thousands."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from tests.conftest import ROOT
from tests.crash.faults import Fault

Item = TypeVar("Item")
Command = Sequence[str]
_SHOWN = 20


@dataclass(frozen=True)
class Told:
    """What a command gave back: None for a code if it did not come to an end."""

    code: int | None
    out: str
    err: str


@dataclass(frozen=True)
class Ended:
    """A process: its exit status, negative for a signal, its commands, and its calls as `name path`."""

    status: int
    told: tuple[Told, ...]
    calls: tuple[str, ...]

    @property
    def is_killed(self) -> bool:
        return self.status == -9

    @property
    def first(self) -> Told:
        return self.told[0]


class Runner:
    """Servers, one per core up to two, and what to ask them."""

    def __init__(self) -> None:
        self._free: queue.Queue[subprocess.Popen[str]] = queue.Queue()
        self._servers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.crash.server"],
                cwd=ROOT,
                env={k: v for k, v in os.environ.items() if not k.startswith("DYNQ_")} | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for _ in range(min(2, os.cpu_count() or 1))
        ]
        for server in self._servers:
            self._free.put(server)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for server in self._servers:
            assert server.stdin is not None
            server.stdin.close()
            server.wait()

    def run(
        self, folder: Path, *commands: Command, fault: Fault | None = None, kill_after: float | None = None
    ) -> Ended:
        """Run commands in one process, one after the other, in a folder."""
        job = {"cwd": str(folder), "commands": commands, "fault": fault, "kill_after": kill_after}
        server = self._free.get()
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps(job) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
        finally:
            self._free.put(server)
        codes = [*answer["codes"], *[None] * len(commands)]
        told = tuple(Told(code, *said) for code, said in zip(codes, answer["told"], strict=False))
        return Ended(answer["status"], told, tuple(answer["calls"]))

    def each(self, items: Sequence[Item], check: Callable[[Item], None]) -> None:
        """Check all items, as many at a time as there are servers; an error that names all that failed."""
        with ThreadPoolExecutor(len(self._servers)) as pool:
            errors = [(item, done.exception()) for item, done in [(i, pool.submit(check, i)) for i in items]]
        told = [f"{item}: {error!r}" for item, error in errors if error is not None]
        assert not told, f"{len(told)} of {len(items)} failed:\n" + "\n".join(told[:_SHOWN])
