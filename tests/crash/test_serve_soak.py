"""`dynq serve` with twenty readers and six writers, killed again and again: every answer is of one committed version.

Logs are posted, posted twice, posted damaged, put into the inbox, and applied by another process. Afterwards the ledger
says which log made which version, and every answer is compared with the result of its version in plain Python.
`DYNQ_CRASH=N` makes it N / 10 seconds long.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dynq_cli.cli.app import main
from dynq_cli.storage.ledger import ledger_of
from dynq_cli.storage.manifest import read_manifest
from tests.crash.bank import ACCOUNTS, SPEC, Entries, Transfer, Writer, difference, entry_rows, rows_of, told
from tests.crash.test_races import started
from tests.serve_client import Served

SECONDS = max(5.0, int(os.environ.get("DYNQ_CRASH", "40")) / 10)
READERS, SUBSCRIBERS, POSTERS, EVERY = 17, 3, 4, 4.0
QUERIES = ("entries", "balances")
_NO_ANSWER = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Answer:
    """What a reader was told: the question, the version and the content of the answer."""

    asked: str
    version: int
    content: Any
    check: Callable[[Any, Entries], bool]


class Soak:
    """The process that is asked, and what was answered."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.served = self._start()
        self.stop, self.failed = threading.Event(), list[str]()
        # The latest version that anybody was told of: no later answer may be of an earlier one.
        self.latest = 0
        self.sent: dict[str, Transfer] = {}
        self.made: dict[str, int] = {}
        self.answers: list[Answer] = []
        self.events: list[tuple[str, int, int, list[str]]] = []
        self.asked: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {"post": [], "count": []}
        self.kills = 0

    def _start(self) -> Served:
        return Served(self.folder, "--inbox", "in", "--quarantine", "aside")

    def kill(self) -> None:
        """End the process as a crash does, and start another one."""
        self.served.process.kill()
        self.served.__exit__(None, None, None)
        assert "Traceback" not in self.served.said(), self.served.said()
        self.kills += 1
        self.served = self._start()

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                place = traceback.extract_tb(error.__traceback__)[-1].lineno
                self.failed.append(f"{work.__qualname__}, line {place}: {error!r}")

        return threading.Thread(target=run, daemon=True)

    def saw(self, version: int, floor: int) -> None:
        assert version >= floor, f"version {version} was answered after {floor}"
        self.latest = max(self.latest, version)


class Client:
    """One connection, made anew when it breaks."""

    def __init__(self, soak: Soak) -> None:
        self._soak = soak
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: str | None = None, kind: str = "text/csv") -> tuple[int, Any, float]:
        """Ask until there is an answer: status, content, seconds."""
        give_up = time.monotonic() + 120
        while True:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPConnection("127.0.0.1", self._soak.served.port, timeout=60)
                begin = time.perf_counter()
                self._connection.request(method, path, body, {"Content-Type": kind})
                answer = self._connection.getresponse()
                content = json.loads(answer.read())
                return answer.status, content, time.perf_counter() - begin
            except _NO_ANSWER:
                assert time.monotonic() < give_up, f"no answer: {method} {path}"
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                time.sleep(0.02)


class Poster:
    """Posts the logs of one writer, sometimes twice, sometimes damaged before."""

    def __init__(self, soak: Soak, number: int) -> None:
        self._soak, self._chance = soak, Random(f"{soak.seed} posts {number}")
        self._writer = Writer(number, POSTERS + 2, soak.seed)
        self._client, self._other = Client(soak), Client(soak)
        self._pool = ThreadPoolExecutor(1)

    def work(self) -> None:
        while not self._soak.stop.is_set():
            log, turn = self._writer.next(), self._chance.random()
            if turn < 0.1:
                status, told_of, _ = self._client.ask("POST", f"/logs?relation=L&batch={log.name}", log.torn())
                assert (status, told_of["error"]["code"]) in ((400, "rejected"), (503, "locked")), told_of
            self._soak.sent[log.name] = log
            if turn > 0.9:  # two clients send the same at once
                twin = self._pool.submit(self._post, self._other, log)
                self._post(self._client, log)
                twin.result()
            else:
                self._post(self._client, log)
            if 0.1 < turn < 0.2:
                assert not self._post(self._client, log), f"{log.name} was applied twice"
                status, told_of, _ = self._client.ask("POST", f"/logs?relation=L&batch={log.name}", log.torn())
                assert status == 503 or "other content" in told_of["error"]["message"], told_of
            time.sleep(self._chance.random() * 0.02)
        self._pool.shutdown()

    def _post(self, client: Client, log: Transfer) -> bool:
        """Post a log until it is durable; whether this post made its version."""
        while True:
            floor = self._soak.latest
            status, answer, seconds = client.ask("POST", f"/logs?relation=L&batch={log.name}", log.text())
            if status == 503:  # another process applies
                time.sleep(0.02)
                continue
            assert status == 200, (status, answer)
            self._soak.saw(answer["version"], floor)
            if not answer["skipped"]:
                assert answer["rows"] == len(log.changes), answer
                assert log.name not in self._soak.made, f"{log.name} was applied twice"
                self._soak.made[log.name] = answer["version"]
                self._soak.seconds["post"].append(seconds)
            return not answer["skipped"]


class Reader:
    """Asks one question after the other, of all kinds."""

    def __init__(self, soak: Soak, number: int) -> None:
        self._soak, self._chance, self._client = soak, Random(f"{soak.seed} reads {number}"), Client(soak)

    def work(self) -> None:
        kinds = [self._count, self._count, self._count, self._count_at, self._page, self._balances, self._where]
        kinds += [self._jth, self._test, self._queries, self._health, self._diff]
        while not self._soak.stop.is_set():
            self._chance.choice(kinds)()
            time.sleep(0.02 + self._chance.random() * 0.04)

    def _ask(self, path: str, check: Callable[[Any, Entries], bool], body: str | None = None) -> None:
        kind, floor = path.partition("?")[0].rpartition("/")[2], self._soak.latest
        method = "GET" if body is None else "POST"
        status, content, seconds = self._client.ask(method, path, body, "application/json")
        if status == 400:  # there is no such position any more, or that version is not kept
            message = content["error"]["message"]
            assert (kind == "jth" and "position" in message) or "not kept" in message, (path, content)
            return
        assert status == 200, (path, content)
        self._soak.asked[kind] += 1
        if "at=" not in path:
            self._soak.saw(content["version"], floor)
        if kind == "count" and "at=" not in path:
            self._soak.seconds["count"].append(seconds)
        self._soak.answers.append(Answer(path, content["version"], content, check))

    def _count(self) -> None:
        query = self._chance.choice(QUERIES)
        self._ask(f"/queries/{query}/count", lambda told_of, held: told_of["rows"] == len(rows_of(query, held)))

    def _count_at(self) -> None:
        at = max(0, self._soak.latest - self._chance.randrange(20))
        self._ask(
            f"/queries/entries/count?at={at}",
            lambda told_of, held: (told_of["version"], told_of["rows"]) == (at, len(held)),
        )

    def _page(self) -> None:
        offset, limit = self._chance.randrange(60), self._chance.randrange(1, 40)
        self._ask(
            f"/queries/entries/rows?offset={offset}&limit={limit}",
            lambda told_of, held: told_of["rows"] == entry_rows(held)[offset : offset + limit],
        )

    def _balances(self) -> None:
        self._ask("/queries/balances/rows", lambda told_of, held: told_of["rows"] == rows_of("balances", held))

    def _where(self) -> None:
        account = self._chance.choice(list(ACCOUNTS))

        def check(told_of: Any, held: Entries) -> bool:
            wanted = [row for row in entry_rows(held) if row["account"] == account]
            return bool(sorted(told_of["rows"], key=lambda row: row["id"]) == wanted)

        self._ask(f"/queries/entries/rows?limit=1000&where=account%20%3D%20%27{account}%27", check)

    def _jth(self) -> None:
        asked = [self._chance.randrange(1, 30) for _ in range(3)]
        self._ask(
            f"/queries/entries/jth?j={','.join(map(str, asked))}",
            lambda told_of, held: told_of["rows"] == [entry_rows(held)[j - 1] for j in asked],
        )

    def _test(self) -> None:
        id_ = self._chance.randrange(400)
        account = self._chance.choice(list(ACCOUNTS))
        sent = list(self._soak.sent.values())
        rows = [change for log in sent[-20:] for change in log.changes]
        amount = 1
        if rows:
            _, id_, account, amount = self._chance.choice(rows)
        row = {"id": id_, "account": account, "name": ACCOUNTS[account], "amount": amount}
        self._ask(
            "/queries/entries/test",
            lambda told_of, held: told_of["count"] == (held.get(id_) == (account, amount)),
            json.dumps(row),
        )

    def _queries(self) -> None:
        def check(told_of: Any, held: Entries) -> bool:
            return {q["name"]: q["rows"] for q in told_of["queries"]} == {q: len(rows_of(q, held)) for q in QUERIES}

        self._ask("/queries", check)

    def _health(self) -> None:
        self._ask("/healthz", lambda told_of, held: told_of["status"] == "ok")

    def _diff(self) -> None:
        query, since = self._chance.choice(QUERIES), max(0, self._soak.latest - self._chance.randrange(30))
        floor = self._soak.latest
        status, content, _ = self._client.ask("GET", f"/queries/{query}/diff?since={since}")
        if status == 400:
            assert "not kept" in content["error"]["message"], content
            return
        assert (status, content["since"]) == (200, since), content
        self._soak.asked["diff"] += 1
        self._soak.saw(content["version"], floor)
        self._soak.events.append((query, since, content["version"], told(content["rows"])))


class Subscription:
    """Follows the changes of a query, over all restarts: every version is told once, in order."""

    def __init__(self, soak: Soak, query: str) -> None:
        self._soak, self._query, self.known, self._connected = soak, query, 0, 0

    def work(self) -> None:
        while self._soak.served.process.poll() is None or not self._soak.stop.is_set():
            try:
                self._follow()
            except _NO_ANSWER:
                time.sleep(0.02)

    def _follow(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._soak.served.port, timeout=60)
        try:
            # After a snapshot, a version without a mark may be gone: then begin anew.
            connection.request("GET", f"/queries/{self._query}/changes", headers={"Last-Event-ID": str(self.known)})
            stream = connection.getresponse()
            if stream.status == 400:
                assert "not kept" in stream.read().decode()
                self.known = self._soak.latest
                return
            while line := stream.readline().decode():
                assert not line.startswith("event: error"), stream.readline()
                if line.startswith("id: "):
                    number = int(line[4:])
                if not line.startswith("data: ") or not line.endswith("\n"):
                    continue
                event = json.loads(line[6:])
                assert event["since"] == self.known, (event["since"], self.known)
                assert event["version"] == number and number > self.known, event
                self.known = number
                self._soak.latest = max(self._soak.latest, number)
                self._soak.asked["event"] += 1
                self._soak.events.append((self._query, event["since"], number, told(event["rows"])))
        finally:
            connection.close()


class Inbox:
    """Puts the logs of one writer into the inbox, sometimes damaged ones between them."""

    def __init__(self, soak: Soak) -> None:
        self._soak, self._chance = soak, Random(f"{soak.seed} inbox")
        self._writer, self._number = Writer(POSTERS, POSTERS + 2, soak.seed), 0

    def work(self) -> None:
        while not self._soak.stop.wait(0.1 + self._chance.random() * 0.3):
            self.put()

    def put(self) -> str:
        log, self._number = self._writer.next(), self._number + 1
        if self._chance.random() < 0.15:
            self._rename(f"L.bad-{self._number}", log.torn())
        self._soak.sent[log.name] = log
        self._rename(log.name, log.text())
        return log.name

    def _rename(self, name: str, text: str) -> None:
        # Names sort as they come, so that a log never stands before one that it takes back.
        made = self._soak.folder / "made.csv"
        made.write_text(text)
        folder = self._soak.folder / "in" / f"{self._number:06d}"
        folder.mkdir(exist_ok=True)
        made.rename(folder / f"{name}.csv")


class Neighbour:
    """Another process that applies a log now and then, between two commits of the process that serves."""

    def __init__(self, soak: Soak) -> None:
        self._soak, self._writer = soak, Writer(POSTERS + 1, POSTERS + 2, soak.seed)

    def work(self) -> None:
        while not self._soak.stop.wait(1.0):
            log = self._writer.next()
            (self._soak.folder / f"{log.name}.csv").write_text(log.text())
            self._soak.sent[log.name] = log
            while True:
                child = started(self._soak.folder, "apply", f"{log.name}.csv")
                _, said = child.communicate(timeout=120)
                assert child.returncode in (0, 11), said
                if child.returncode == 0:
                    break


def _checked(soak: Soak, folder: Path) -> Entries:
    """Hold the ledger against what was told, and every answer against its version; return the last entries."""
    manifest = read_manifest(folder / ".dynq")
    held: dict[int, Entries] = {}
    applied: Counter[str] = Counter()
    for entry in sorted(ledger_of(folder / ".dynq", manifest).entries(), key=lambda entry: entry.version):
        if entry.version == 0:
            held[0] = {}
            continue
        (log,) = entry.logs
        name = log.name.removesuffix(".csv")
        applied[name] += 1
        assert soak.made.get(name, entry.version) == entry.version, (name, soak.made[name], entry.version)
        held[entry.version] = soak.sent[name].after(held[entry.version - 1])
    assert applied == dict.fromkeys(soak.sent, 1)
    assert max(held) == manifest.version >= soak.latest
    wrong = [a for a in soak.answers if not a.check(a.content, held[a.version])]
    assert not wrong, f"{len(wrong)} of {len(soak.answers)} answers are not those of their version, as: {wrong[0]}"
    changes = [e for e in soak.events if e[3] != difference(e[0], held[e[1]], held[e[2]])]
    assert not changes, f"{len(changes)} of {len(soak.events)} differences are wrong, as: {changes[0]}"
    return held[manifest.version]


def test_under_load_and_kills_every_answer_is_of_one_committed_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    Path("A.csv").write_text("account,name\n" + "".join(f"{a},{name}\n" for a, name in ACCOUNTS.items()))
    Path("in").mkdir()
    assert main(["init", "spec.yaml", "--load", "A=A.csv"]) == 0
    soak, chance = Soak(tmp_path, seed=1), Random(1)
    inbox = Inbox(soak)
    subscriptions = [Subscription(soak, QUERIES[n % 2]) for n in range(SUBSCRIBERS)]
    works = [*(Poster(soak, n).work for n in range(POSTERS)), inbox.work, Neighbour(soak).work]
    works += [*(Reader(soak, n).work for n in range(READERS)), *(s.work for s in subscriptions)]
    threads = [soak.thread(work) for work in works]
    for thread in threads:
        thread.start()
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end and not soak.failed:
            time.sleep(EVERY * (0.3 + 0.7 * chance.random()))
            if not soak.failed:
                soak.kill()
        for thread in threads[:-SUBSCRIBERS]:
            soak.stop.set()
            thread.join(120)
        last = inbox.put()
        _wait(soak, lambda: last in _names(tmp_path), "the last log of the inbox is applied")
        version = read_manifest(tmp_path / ".dynq").version
        _wait(soak, lambda: all(s.known == version for s in subscriptions), "subscribers are told of all versions")
        assert soak.served.stop() == 0
        for thread in threads:
            thread.join(120)
        assert "Traceback" not in soak.served.said(), soak.served.said()
    finally:
        soak.stop.set()
        soak.served.__exit__(None, None, None)
    assert not soak.failed, soak.failed
    assert not any(thread.is_alive() for thread in threads)
    final = _checked(soak, tmp_path)
    assert soak.kills and len(soak.asked) >= 6, soak.asked
    written = [json.loads(line) for line in Path("out/balances.jsonl").read_text().splitlines()]
    assert written == rows_of("balances", final)
    assert main(["check", "--read-data"]) == 0
    assert main(["verify"]) == 0
    said = {kind: f"{1000 * statistics.median(taken):.1f} ms" for kind, taken in soak.seconds.items()}
    print(f"{soak.latest} versions, {soak.kills} kills, load {os.getloadavg()[0]:.1f}, {said}, {dict(soak.asked)}")


def _names(folder: Path) -> set[str]:
    ledger = ledger_of(folder / ".dynq", read_manifest(folder / ".dynq"))
    return {log.name.removesuffix(".csv") for entry in ledger.entries(limit=20) for log in entry.logs}


def _wait(soak: Soak, is_done: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + 60
    while not is_done():
        assert not soak.failed, soak.failed
        assert time.monotonic() < give_up, f"never: {what}"
        time.sleep(0.05)
