"""Work on several shards at once, on as many threads as the machine has cores. Kernels run without Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Lanes:
    """Threads for the shards of a state; closed with it."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], Made]) -> Future[Made]:
        """Begin a piece of work."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(cores(), thread_name_prefix="shard")
        return self._pool.submit(work)

    def map(self, work: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """Call `work` for each item; return all results once all have ended, or raise the first error by item."""
        several = list(items)
        if len(several) == 1:
            return [work(several[0])]
        return gathered([self.start(partial(work, item)) for item in several])

    def close(self) -> None:
        """End the threads."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


def gathered(futures: Sequence[Future[Made]]) -> list[Made]:
    """Wait for all to end, then return the results or raise the first error."""
    wait(futures)
    return [future.result() for future in futures]
