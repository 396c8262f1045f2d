"""`dynq serve`: real processes; answers are those of the commands, what was answered is durable, signals end it."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from tests.serve_client import Served

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: string}, key: [x]}
  S: {columns: {y: string, z: "decimal(9,2)?"}}
queries:
  pairs: {sql: "SELECT x, z FROM R JOIN S ON R.y = S.y ORDER BY x, z"}
  keys: {rule: "keys(y) :- R(_, y), S(y, _)"}
outputs:
  - {query: keys, kind: count, path: out/keys.json}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    with dynq_cli.create("spec.yaml") as view:
        view.apply({"R": pa.table({"x": [1, 2, 3], "y": ["a", "a", "b"]})})
        z = pa.array(["1.50", None, "2.00"]).cast(pa.decimal128(9, 2))
        view.apply({"S": pa.table({"y": ["a", "a", "c"], "z": z})})
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    with Served(folder) as made:
        yield made


def test_questions_are_answered_as_the_commands_do(served: Served) -> None:
    assert served.get("/queries/pairs/count") == {"rows": 4, "distinct": 4, "version": 2}
    assert served.get("/queries/pairs/count?at=1")["rows"] == 0
    listed = served.get("/queries")
    assert [(q["name"], q["rows"], [c["name"] for c in q["columns"]]) for q in listed["queries"]] == [
        ("pairs", 4, ["x", "z", "_count"]),
        ("keys", 1, ["y"]),
    ]
    found = served.get("/queries/pairs/rows?offset=1&limit=2")
    assert (found["columns"], found["version"]) == (["x", "z"], 2)
    assert found["rows"] == [{"x": 1, "z": "1.50"}, {"x": 2, "z": None}]
    assert served.get("/queries/pairs/rows?where=x%20%3D%202")["rows"] == [{"x": 2, "z": None}, {"x": 2, "z": "1.50"}]
    assert served.get("/queries/pairs/rows?at=1")["rows"] == []
    assert served.get("/queries/pairs/rows?offset=99")["rows"] == []
    assert served.get("/queries/pairs/jth?j=4,1")["rows"] == [{"x": 2, "z": "1.50"}, {"x": 1, "z": None}]
    assert served.post("/queries/pairs/test", '{"x": 1, "z": "1.50"}', "application/json")[1]["result"] is True
    assert served.post("/queries/pairs/rank", '{"x": 2, "z": null}', "application/json")[1]["rank"] == 3
    diff = served.get("/queries/keys/diff?since=0")
    assert (diff["since"], diff["version"], diff["rows"]) == (0, 2, [{"y": "a", "_change_type": "insert"}])
    assert served.get("/healthz") == {"status": "ok", "version": 2}


def test_rows_of_a_query_kept_for_walks_come_in_the_order_of_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC.replace(' ORDER BY x, z"}', '", keep: rows}'))
    with dynq_cli.create("spec.yaml") as view:
        z = pa.array([None, None], pa.decimal128(9, 2))
        view.apply({"R": pa.table({"x": [1, 2], "y": ["a", "a"]}), "S": pa.table({"y": ["a", "a"], "z": z})})
    with Served(tmp_path) as made:
        every = made.get("/queries/pairs/rows")["rows"]
        assert sorted(row["x"] for row in every) == [1, 1, 2, 2]
        pages = [made.get(f"/queries/pairs/rows?offset={n}&limit=1")["rows"] for n in range(5)]
        assert pages == [[row] for row in every] + [[]]


def test_rows_come_as_csv_and_arrow_too(served: Served) -> None:
    status, headers, body = served.ask("GET", "/queries/pairs/rows?limit=2", Accept="text/csv")
    assert (status, headers["x-dynq-version"], body) == (200, "2", b"x,z\n1,\n1,1.50\n")
    _, headers, body = served.ask("GET", "/queries/pairs/rows", Accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(io.BytesIO(body)).read_all()["x"].to_pylist() == [1, 1, 2, 2]


def test_a_posted_log_is_a_version_once(served: Served, folder: Path) -> None:
    assert served.post("/logs?relation=R&batch=one", "x,y\n7,a\n") == (
        200,
        {"version": 3, "skipped": False, "rows": 1, "inserted": 1, "replaced": 0, "deleted": 0, "warnings": []},
    )
    status, again = served.post("/logs?relation=R&batch=one", "x,y\n7,a\n")
    assert (status, again) == (200, {"version": 3, "skipped": True, "reason": "applied before"})
    assert served.get("/queries/pairs/count")["rows"] == 6
    status, other = served.post("/logs?relation=R&batch=one", "x,y\n8,a\n")
    assert status == 400 and "other content" in other["error"]["message"]
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [8], "y": ["a"]}), sink)
    assert served.post("/logs?relation=R", sink.getvalue(), "application/vnd.apache.parquet")[1]["version"] == 4
    arrow = io.BytesIO()
    with pa.ipc.new_stream(arrow, pa.schema([("x", pa.int64()), ("y", pa.string())])) as writer:
        writer.write_table(pa.table({"x": [9], "y": ["a"]}))
    assert served.post("/logs?relation=R", arrow.getvalue(), "application/vnd.apache.arrow.stream")[1]["version"] == 5
    line = json.dumps({"_relation": "R", "_change_type": "delete", "x": 9})
    assert served.post("/logs", line + "\n", "application/x-ndjson")[1]["version"] == 6
    assert dynq_cli.open(folder / ".dynq").counts("pairs").rows == 8


def test_bad_requests_are_errors_in_json_and_change_nothing(served: Served) -> None:
    csv, json_, logs = "text/csv", "application/json", "/logs?relation=R"
    requests: list[tuple[str, str | bytes, str, int]] = [
        (logs, "x,y\nno,a\n", csv, 400),
        (logs, "x,y\n1,a\n", csv, 400),
        ("/logs?relation=Q", "x\n1\n", csv, 400),
        ("/logs", "x\n1\n", csv, 400),
        (logs, "x,y\n5,a\n", "text/plain", 400),
        (f"{logs}&batch=../../x", "x,y\n5,a\n", csv, 400),
        (logs, b"PAR1\x00\x00\x00\x01garbagePAR1", "application/vnd.apache.parquet", 400),
        ("/queries/pairs/test", "{", json_, 400),
        ("/queries/pairs/test", '{"x": 1}', json_, 400),
        ("/queries/nope/test", "{}", json_, 404),
        ("/queries/pairs/rank", '{"x": 99, "z": null}', json_, 400),
        ("/nothing", "", csv, 404),
        ("/healthz", "", csv, 405),
    ]
    for path, body, kind, status in requests:
        found, told = served.post(path, body, kind)
        assert (found, set(told["error"]) >= {"code", "message"}) == (status, True), path
        assert "Traceback" not in str(told) and "/tmp" not in str(told), told
        assert served.get("/healthz")["version"] == 2, path


def test_bad_questions_are_refused(served: Served) -> None:
    asked = ["rows?limit=x", "rows?limit=1000000", "rows?offset=-1", "rows?where=x", "rows?at=9", "jth", "jth?j=0"]
    asked += ["jth?j=99", "diff?since=nomark", "diff?since=9", "changes?since=77", "count?at=77"]
    for path in asked:
        status, _, body = served.ask("GET", f"/queries/pairs/{path}")
        assert status == 400 and json.loads(body)["error"]["message"], path


def test_random_bytes_break_nothing(served: Served) -> None:
    chance = Random("serve")
    for _ in range(60):
        sent = bytes(chance.randrange(256) for _ in range(chance.randrange(400)))
        if chance.random() < 0.5:
            sent = b"POST /logs?relation=R HTTP/1.1\r\nContent-Type: text/csv\r\nContent-Length: 99\r\n\r\n" + sent
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            connection.sendall(sent)
    for kind in ("text/csv", "application/x-ndjson", "application/vnd.apache.parquet", "application/json"):
        for _ in range(10):
            body = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 300)))
            assert served.post("/logs?relation=R", body, kind)[0] in (200, 400)
    assert served.process.poll() is None
    assert served.get("/queries/pairs/count")["rows"] == 4
    assert "Traceback" not in served.said()


def test_subscribers_get_an_event_per_version(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", "/queries/pairs/changes?since=1")
    stream = connection.getresponse()
    assert stream.headers["content-type"].startswith("text/event-stream")

    def event() -> dict[str, object]:
        while not (line := stream.readline().decode()).startswith("data: "):
            assert line, "the stream ended"
        return dict(json.loads(line[6:]))

    first = event()
    assert (first["since"], first["version"]) == (1, 2)
    for number in range(3):
        served.post("/logs?relation=R", f"x,y\n{20 + number},a\n")
    found = [event() for _ in range(3)]
    assert [(e["since"], e["version"]) for e in found] == [(2, 3), (3, 4), (4, 5)]
    assert found[0]["rows"] == [
        {"x": 20, "z": None, "_change_type": "insert", "_count": 1},
        {"x": 20, "z": "1.50", "_change_type": "insert", "_count": 1},
    ]
    assert served.stop() == 0
    assert stream.read().strip() == b""


def test_changes_that_cannot_be_told_are_refused(folder: Path) -> None:
    tested = '  tested: {rule: "tested(x, y) :- R(x, y)", keep: test}\n  late: {rule: "late(x) :- R(x, _)"}\noutputs:\n'
    Path("more.yaml").write_text(SPEC.replace("outputs:\n", tested))
    dynq_cli.alter(".dynq", "more.yaml")
    with Served(folder) as served:
        status, _, body = served.ask("GET", "/queries/tested/changes")
        assert status == 400 and b"keep: test" in body
        status, _, body = served.ask("GET", "/queries/late/changes?since=1")
        assert status == 200 and b"event: error" in body and b"late was not there at version 1" in body
        assert "Traceback" not in served.said()


def test_the_inbox_is_applied_and_outputs_are_written(folder: Path) -> None:
    inbox = folder / "in"
    inbox.mkdir()
    (inbox / "S.0.csv").write_text("y,z\nb,3\n")
    with Served(folder, "--inbox", "in") as served:
        assert served.get("/queries/keys/count") == {"rows": 2, "distinct": 2, "version": 3}
        (folder / "S.1.csv").write_text("y,z\nd,3\n")
        os.replace(folder / "S.1.csv", inbox / "S.1.csv")
        deadline = time.monotonic() + 30
        while served.get("/healthz")["version"] < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        (inbox / "S.2.csv").write_text("y,z\nx,broken\n")
        while "broken" not in served.said() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "S.2.csv" in served.said()
        assert served.get("/healthz")["version"] == 4
        assert main(["run", "in"]) == 11
        assert served.stop() == 0
    assert json.loads((folder / "out/keys.json").read_text())["rows"] == 2


def test_what_was_answered_survives_a_kill(folder: Path) -> None:
    with Served(folder) as served:
        for number in range(5):
            assert served.post(f"/logs?relation=R&batch=b{number}", f"x,y\n{50 + number},a\n")[0] == 200
        served.process.kill()
        served.process.wait()
    with Served(folder) as served:
        assert served.get("/healthz")["version"] == 7
        assert served.post("/logs?relation=R&batch=b4", "x,y\n54,a\n")[1]["skipped"] is True
    assert main(["check", "--read-data"]) == 0
    assert main(["verify"]) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(served: Served, number: signal.Signals) -> None:
    served.post("/logs?relation=R", "x,y\n60,a\n")
    assert served.stop(number) == 0
    assert "Traceback" not in served.said()
    assert main(["apply", "--dry-run", "spec.yaml"]) != 11


def test_another_process_may_apply_meanwhile(served: Served) -> None:
    Path("R.1.csv").write_text("x,y\n70,a\n")
    assert main(["apply", "R.1.csv"]) == 0
    assert served.get("/queries/pairs/count")["rows"] == 6
    assert served.post("/logs?relation=R", "x,y\n71,a\n")[1]["version"] == 4
    assert len(served.get("/queries/pairs/rows")["rows"]) == 8


def test_no_answer_is_torn_while_changes_are_posted(served: Served) -> None:
    """Each log inserts or deletes two rows of R, so `pairs` always has a multiple of 4 rows."""
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            rows = served.get("/queries/pairs/rows?limit=1000")
            count = served.get("/queries/pairs/count")
            if len(rows["rows"]) % 4 or count["rows"] % 4:
                wrong.append((rows["version"], len(rows["rows"]), count))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(30):
        assert served.post("/logs?relation=R", f"x,y\n{100 + 2 * number},a\n{101 + 2 * number},a\n")[0] == 200
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert served.get("/queries/pairs/count")["rows"] == 4 + 30 * 4


def test_line_breaks_of_unicode_in_texts_stay(folder: Path) -> None:
    odd = "a\u2028b\x85c\x0bd\re"
    with dynq_cli.open() as view:
        view.apply({"R": pa.table({"x": [9], "y": [odd]})})
        view.apply({"S": pa.table({"y": [odd], "z": pa.array([None], pa.decimal128(9, 2))})})
    with Served(folder) as served:
        assert {"y": odd} in served.get("/queries/keys/rows")["rows"]
        assert served.get("/queries/keys/diff?since=3")["rows"] == [{"y": odd, "_change_type": "insert"}]


def test_a_host_name_of_elsewhere_is_refused_without_a_token(served: Served) -> None:
    for host in ("evil.example", "evil.example:8080", "10.0.0.1", ""):
        assert served.ask("GET", "/queries/pairs/rows", Host=host)[0] == 403, host
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:80"):
        assert served.ask("GET", "/queries/pairs/rows", Host=host)[0] == 200, host
    assert served.ask("GET", "/healthz", Host="evil.example")[0] == 200


def test_a_difference_that_is_too_large_is_refused(served: Served, folder: Path) -> None:
    with dynq_cli.open() as view:
        view.apply({"R": pa.table({"x": pa.array(range(10, 600_010)), "y": ["a"] * 600_000})})
    status, _, body = served.ask("GET", "/queries/pairs/diff?since=2")
    assert status == 400 and "more than 1,000,000 rows" in json.loads(body)["error"]["message"]


def test_a_token_is_asked_for(folder: Path) -> None:
    (folder / "token").write_text("a-long-secret\n")
    with Served(folder, "--token-file", "token") as served:
        assert served.ask("GET", "/queries")[0] == 401
        assert served.ask("GET", "/queries", Authorization="Bearer wrong-secret")[0] == 401
        assert served.ask("GET", "/queries", Authorization="Bearer a-long-secret")[0] == 200
        assert served.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--listen", "0.0.0.0:0"], 2),
        (["--listen", "nothing"], 2),
        (["--inbox", "nowhere"], 2),
        (["--token-file", "nowhere"], 2),
        (["-s", "elsewhere"], 10),
    ],
)
def test_what_cannot_be_served_is_refused(folder: Path, options: list[str], code: int) -> None:
    assert main(["serve", *options]) == code


def test_the_page_and_metrics(served: Served) -> None:
    served.post("/logs?relation=R", "x,y\n80,a\n")
    status, headers, body = served.ask("GET", "/")
    page = body.decode()
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "4 rows at version 2, 6 at version 3" in page and "<script" not in page
    text = served.ask("GET", "/metrics")[2].decode()
    assert 'dynq_query_rows{state=".dynq",query="pairs"} 6' in text
    assert 'dynq_serve_logs{state=".dynq",outcome="applied"} 1' in text


def test_answers_are_not_held_back_by_the_network(served: Served) -> None:
    """The head and the body of an answer are two writes, and a socket with delays holds the second back for 40 ms."""
    connection, taken = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60), []
    for _ in range(60):
        begin = time.perf_counter()
        connection.request("GET", "/queries/pairs/count")
        connection.getresponse().read()
        taken.append(time.perf_counter() - begin)
    assert sorted(taken)[15] < 0.03
