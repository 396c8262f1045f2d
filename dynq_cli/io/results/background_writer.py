"""Write blocks in a second thread, while the next block is filled.

    feed(source, take)  =  take(source)      with `source` run in the calling thread and `take` in another

Arrow writes without holding Python's lock, so on two cores the slower of both is what it costs. At most one item
waits between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Queue
from threading import Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")


class AbandonedError(Exception):
    """The source failed: what was taken from it is not all there is."""


class _End:
    """The last thing in the queue."""


class _Belt(Generic[Item]):
    def __init__(self, take: Callable[[Iterator[Item]], None]) -> None:
        self._take = take
        self._queue: Queue[Item | type[_End]] = Queue(maxsize=1)
        self._is_read = False
        self.is_whole = False
        self.error: BaseException | None = None

    def put(self, item: Item | type[_End]) -> None:
        self._queue.put(item)

    def _items(self) -> Iterator[Item]:
        while not self._is_read:
            item = self._queue.get()
            if isinstance(item, type):
                self._is_read = True
            else:
                yield item
        if not self.is_whole:
            raise AbandonedError

    def run(self) -> None:
        try:
            self._take(self._items())
        except BaseException as error:
            self.error = error
        while not self._is_read:  # whoever puts must never wait for a taker that gave up
            self._is_read = self._queue.get() is _End


def feed(source: Iterator[Item], take: Callable[[Iterator[Item]], None]) -> None:
    """Let `take` consume `source` in a thread. What either raises is raised here, after both have ended.

    If `source` fails, `take` meets an AbandonedError instead of the end.
    """
    belt = _Belt(take)
    worker = Thread(target=belt.run, name="dynq-writer", daemon=True)
    worker.start()
    try:
        for item in source:
            belt.put(item)
            if belt.error is not None:
                break
        belt.is_whole = True
    finally:
        belt.put(_End)
        worker.join()
    if belt.error is not None:
        raise belt.error
