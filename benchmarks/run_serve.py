"""Measure `dynq serve` over HTTP: posts and counts, alone, with 20 readers, and with subscribers.

    python benchmarks/run_serve.py FOLDER POSTS

Prints medians in seconds, changes per second, and the share of a core that a busy loop gets, as one JSON object.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

from processes import ENVIRONMENT, output_of

READERS, SUBSCRIBERS, PAUSE, ROWS, LOG = 20, 3, 0.05, 10_000, 100
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}, key: [x]}
  S: {columns: {y: int64, z: int64}}
queries:
  pairs: {sql: "SELECT x, z FROM R JOIN S ON R.y = S.y ORDER BY x, z"}
  groups: {sql: "SELECT z, COUNT(*) AS n FROM R JOIN S ON R.y = S.y GROUP BY z"}
"""


class Client:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: str | None = None) -> float:
        begin = time.perf_counter()
        self._connection.request(method, path, body, {"Content-Type": "text/csv"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {content!r}")
        return time.perf_counter() - begin


def main() -> None:
    if sys.argv[1] == "readers":
        read(int(sys.argv[2]))
        return
    folder, posts = Path(sys.argv[1]), int(sys.argv[2])
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "R.csv").write_text("x,y\n" + "".join(f"{x},{x % 100}\n" for x in range(ROWS)))
    (folder / "S.csv").write_text("y,z\n" + "".join(f"{y},{y % 10}\n" for y in range(100)))
    dynq = [sys.executable, "-m", "dynq_cli"]
    state = ["--state", str(folder / "state")]
    loads = [word for name in "RS" for word in ("--load", f"{name}={folder / name}.csv")]
    output_of([*dynq, "init", str(folder / "spec.yaml"), *loads, *state])
    with serving([*dynq, "serve", "--listen", "127.0.0.1:0", *state], folder) as port:
        client, rows = Client(port), iter(range(ROWS, 10**9))

        def post(many: int = 1) -> float:
            body = "".join(f"{next(rows)},{random.randrange(100)}\n" for _ in range(many))
            return client.ask("POST", "/logs?relation=R", "x,y\n" + body)

        def count() -> float:
            return client.ask("GET", "/queries/pairs/count")

        found = {"post_alone": median(post, posts), "count_alone": median(count, posts)}
        with readers(port):
            found["post"], found["count"] = median(post, posts), median(count, posts)
            logs = max(10, posts // 4)
            begin = time.perf_counter()
            for _ in range(logs):
                post(LOG)
            found["rate"] = logs * LOG / (time.perf_counter() - begin)
            with subscribers(port):
                found["post_told"] = median(post, posts)
            found["fsync"] = median(lambda: commit_alone(folder), posts)
            found["share"] = share()
    print(json.dumps(found))


def median(measure: Callable[[], float], times: int) -> float:
    for _ in range(5):
        measure()
    return statistics.median(measure() for _ in range(times))


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[int]:
    with (folder / "said").open("w+") as log, subprocess.Popen(command, stderr=log, env=ENVIRONMENT) as process:
        try:
            while "http://" not in (said := (folder / "said").read_text()):
                if process.poll() is not None:
                    raise SystemExit(said)
                time.sleep(0.05)
            yield int(said.strip().rpartition(":")[2])
        finally:
            process.terminate()


@contextmanager
def readers(port: int) -> Iterator[None]:
    """Readers in a process of their own, so that they do not take turns with what is measured."""
    with subprocess.Popen([sys.executable, __file__, "readers", str(port)], env=ENVIRONMENT) as process:
        time.sleep(1)
        try:
            yield
        finally:
            process.kill()


def read(port: int) -> None:
    def work(number: int) -> None:
        client, chance = Client(port), random.Random(number)
        while True:
            client.ask("GET", chance.choice(["/queries/pairs/count", "/queries/pairs/rows?limit=20&offset=5000"]))
            time.sleep(PAUSE * 2 * chance.random())

    threads = [Thread(target=work, args=(number,), daemon=True) for number in range(READERS)]
    for thread in threads:
        thread.start()
    threads[0].join()


@contextmanager
def subscribers(port: int) -> Iterator[None]:
    def work(ready: Event) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/queries/groups/changes")
        stream = connection.getresponse()
        while stream.readline():
            ready.set()

    with ExitStack():
        events = [Event() for _ in range(SUBSCRIBERS)]
        for event in events:
            Thread(target=work, args=(event,), daemon=True).start()
        for event in events:
            event.wait(60)
        yield


def commit_alone(folder: Path) -> float:
    """Two appends and a file put in the place of another, each durable: the system calls of a commit."""
    begin = time.perf_counter()
    for name, mode in (("a", "ab"), ("b", "ab"), ("c", "wb")):
        with (folder / name).open(mode) as file:
            file.write(b"x" * 500)
            file.flush()
            os.fsync(file.fileno())
    os.replace(folder / "c", folder / "d")
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    return time.perf_counter() - begin


def share() -> float:
    begin, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < 0.5:
        pass
    return (time.process_time() - used) / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
