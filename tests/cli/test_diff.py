"""`dynq diff`: what came and went, as a log that another state applies once; a mark moves when the output is safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli import output
from dynq_cli.cli.app import main
from dynq_cli.engine import dirty_set
from dynq_cli.io.logs.identity import METADATA_KEY
from dynq_cli.storage import commit
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.state import State
from tests.conftest import ROOT
from tests.seeds import seeds

Capture = pytest.CaptureFixture[str]
Rows = Counter[tuple[int, ...]]
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}}
queries:
  bag: {sql: "SELECT x, R.y, z FROM R, S WHERE R.y = S.y"}
  set: {rule: "set(x, y) :- R(x, y), S(y, _)"}
  some: {rule: "some() :- R(x, y), S(y, z)"}
"""
NEXT = """\
version: 1
relations:
  bag: {columns: {x: int64, y: int64, z: int64}}
  set: {columns: {x: int64, y: int64}}
queries:
  all_bag: {sql: "SELECT x, y, z FROM bag"}
  all_set: {sql: "SELECT x, y FROM set"}
"""
SEEDS = seeds(2)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    dynq("init", "spec.yaml")
    apply("R.1.csv", "x,y\n1,10\n2,20\n")
    apply("S.1.csv", "y,z\n10,5\n10,5\n20,6\n")
    capsys.readouterr()


def dynq(*args: str, code: int = 0) -> None:
    assert main([*args, "--quiet"]) == code


def apply(name: str, rows: str, *args: str, code: int = 0) -> None:
    Path(name).write_text(rows)
    dynq("apply", name, *args, code=code)


def printed(capsys: Capture, *args: str) -> str:
    capsys.readouterr()
    dynq(*args)
    return capsys.readouterr().out


def changed(capsys: Capture, query: str, *args: str) -> Rows:
    """A diff as copies that came, or went below zero; every row at most once."""
    found: Rows = Counter()
    for line in printed(capsys, "diff", "-q", query, "--json", *args).splitlines():
        row: dict[str, Any] = json.loads(line)
        sign, many = {"insert": 1, "delete": -1}[row.pop("_change_type")], row.pop("_count", 1)
        assert tuple(row.values()) not in found
        found[tuple(row.values())] = sign * many
    return found


def result(capsys: Capture, query: str, *args: str) -> Rows:
    rows = map(json.loads, printed(capsys, "enum", "-q", query, "--json", *args).splitlines())
    return Counter({tuple(v for k, v in row.items() if k != "_count"): row.get("_count", 1) for row in rows})


def minus(new: Rows, old: Rows) -> Rows:
    found = Counter(new)
    found.subtract(old)
    return Counter({row: many for row, many in found.items() if many})


def mark_at(capsys: Capture, name: str) -> int:
    found: dict[str, int] = json.loads(printed(capsys, "marks", "--json"))
    return found[name]


def test_the_columns_of_the_result_come_first_then_the_kind_of_change_then_copies(capsys: Capture) -> None:
    apply("R.2.csv", "x,y,_change_type\n1,10,delete\n3,20,insert\n")
    out = printed(capsys, "diff", "-q", "bag").splitlines()
    assert out[0] == "x,y,z,_change_type,_count"
    assert sorted(out[1:]) == ["1,10,5,delete,2", "3,20,6,insert,1"]
    out = printed(capsys, "diff", "-q", "set").splitlines()
    assert out[0] == "x,y,_change_type"
    assert sorted(out[1:]) == ["1,10,delete", "3,20,insert"]


def test_of_a_bag_copies_are_counted_and_of_a_set_only_rows(capsys: Capture) -> None:
    apply("S.2.csv", "y,z,_count\n10,5,3\n")
    assert changed(capsys, "bag") == {(1, 10, 5): 3}, "from 2 to 5 copies"
    assert changed(capsys, "set") == {}
    apply("S.3.csv", "y,z,_change_type,_count\n10,5,delete,4\n")
    assert changed(capsys, "bag") == {(1, 10, 5): -4}
    assert changed(capsys, "set") == {}


def test_a_boolean_query_comes_and_goes_as_a_whole(capsys: Capture) -> None:
    assert printed(capsys, "diff", "-q", "some", "--since", "0") == "_change_type\ninsert\n"
    apply("R.2.csv", "x,y,_change_type\n1,10,delete\n2,20,delete\n")
    dynq("diff", "-q", "some", "-o", "some.parquet")
    assert pq.read_table("some.parquet").to_pylist() == [{"_change_type": "delete"}]


def test_unless_said_otherwise_it_is_since_before_the_last_command_that_applied_something(capsys: Capture) -> None:
    Path("R.2.csv").write_text("x,y\n3,10\n")
    Path("R.3.csv").write_text("x,y\n4,20\n")
    dynq("apply", "R.2.csv", "R.3.csv")
    dynq("apply", "R.3.csv")  # nothing new
    assert changed(capsys, "set") == {(3, 10): 1, (4, 20): 1}
    assert changed(capsys, "set", "--since", "3") == {(4, 20): 1}
    assert changed(capsys, "set", "--since", "0") == result(capsys, "set")


def test_every_form_has_the_same_rows(capsys: Capture) -> None:
    expected = printed(capsys, "diff", "-q", "bag", "--since", "1")
    for name in ("d.csv", "d.jsonl", "d.parquet", "d.arrow"):
        assert printed(capsys, "diff", "-q", "bag", "--since", "1", "-o", name) == ""
    assert Path("d.csv").read_text() == expected
    assert printed(capsys, "diff", "-q", "bag", "--since", "1", "-o", "-") == expected
    table = pq.read_table("d.parquet")
    assert table.to_pylist() == pa.ipc.open_file("d.arrow").read_all().to_pylist()
    assert table.to_pylist() == [json.loads(line) for line in Path("d.jsonl").read_text().splitlines()]


def test_where_nothing_changed_there_is_a_header_and_no_rows(capsys: Capture) -> None:
    assert printed(capsys, "diff", "-q", "bag", "--since", "2") == "x,y,z,_change_type,_count\n"
    dynq("diff", "-q", "bag", "--since", "2", "-o", "none.parquet")
    table = pq.read_table("none.parquet")
    assert (table.num_rows, table.schema.names[-2:]) == (0, ["_change_type", "_count"])


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--since", "9"], 3, "no version 9 yet"),
        (["--since", "hourly"], 3, "dynq mark NAME"),
        (["--since", "hourly", "--advance"], 3, "no mark hourly"),
        (["--advance"], 2, "--since MARK"),
        (["--since", "1", "--advance"], 2, "--since MARK"),
        (["-q", "nobody"], 2, "no query nobody"),
        (["-o", "out.xlsx"], 2, ".parquet .csv .jsonl .arrow"),
        (["-o", "out.csv", "--json"], 2, "two forms"),
        (["-s", "nowhere"], 10, "no state"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    capsys: Capture, args: list[str], code: int, said: str
) -> None:
    before = sorted(os.listdir())
    assert main(["diff", "-q", "bag", *args]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert sorted(os.listdir()) == before


def test_the_query_must_be_named_where_there_are_several(capsys: Capture) -> None:
    dynq("diff", code=2)
    assert "bag, set, some" in capsys.readouterr().err


def test_a_version_that_was_dropped_is_refused(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)
    for number in range(2, 6):
        apply(f"R.{number}.csv", f"x,y\n{number},10\n")
    dynq("prune")
    dynq("diff", "-q", "bag", "--since", "1", code=3)
    assert "version 1 is not kept any more" in capsys.readouterr().err
    assert changed(capsys, "set") == {(5, 10): 1}


def test_advance_moves_the_mark_to_the_version_that_was_read(capsys: Capture) -> None:
    dynq("mark", "hourly", "--at", "1")
    assert changed(capsys, "set", "--since", "hourly", "--advance") == {(1, 10): 1, (2, 20): 1}
    assert mark_at(capsys, "hourly") == 2
    assert changed(capsys, "set", "--since", "hourly", "--advance") == {}
    apply("R.2.csv", "x,y\n3,10\n")
    assert main(["diff", "-q", "set", "--since", "hourly", "--advance", "-o", "d.csv"]) == 0
    told = capsys.readouterr().err
    assert "wrote 1 row to d.csv" in told
    assert "moved the mark hourly from version 2 to 3" in told
    assert mark_at(capsys, "hourly") == 3


def test_a_mark_stays_where_it_is_if_the_output_cannot_be_written(capsys: Capture) -> None:
    dynq("mark", "hourly", "--at", "0")
    dynq("diff", "-q", "set", "--since", "hourly", "--advance", "-o", "gone/d.csv", code=2)
    args = [sys.executable, "-m", "dynq_cli", "diff", "-q", "set", "--since", "hourly", "--advance"]
    with open("/dev/full", "w") as full:
        run = subprocess.run(args, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=full, check=False)
    assert run.returncode == 1
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run(args, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=write, check=False)
    os.close(write)
    assert run.returncode == 0, "a reader that goes away is no error"
    assert mark_at(capsys, "hourly") == 0


def test_a_mark_moves_only_after_the_file_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    dynq("mark", "hourly", "--at", "0")
    there = []
    mark = State.mark

    def looking(self: State, name: str, version: str | int | None = None) -> int:
        there.append(Path("d.csv").read_text().count("\n"))
        return mark(self, name, version)

    monkeypatch.setattr(State, "mark", looking)
    dynq("diff", "-q", "set", "--since", "hourly", "--advance", "-o", "d.csv")
    assert there == [3]


def test_advance_meets_another_writer_before_anything_is_written() -> None:
    dynq("mark", "hourly", "--at", "0")
    with writing_to(Path(".dynq")):
        dynq("diff", "-q", "set", "--since", "hourly", "--advance", "-o", "d.csv", code=11)
        assert not Path("d.csv").exists()
        dynq("diff", "-q", "set", "--since", "hourly", "-o", "d.csv")


def test_a_mark_that_was_moved_meanwhile_is_left_alone(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    dynq("mark", "hourly", "--at", "0")
    diff = State.diff

    def moved(self: State, *args: Any) -> Any:
        read = diff(self, *args)
        self.mark("hourly", 1)
        return read

    monkeypatch.setattr(State, "diff", moved)
    dynq("diff", "-q", "set", "--since", "hourly", "--advance", "-o", "d.csv", code=3)
    assert "at version 1" in capsys.readouterr().err
    assert mark_at(capsys, "hourly") == 1


def test_on_a_terminal_there_is_a_table_and_with_advance_every_row(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply("R.2.csv", "x,y\n" + "".join(f"{x},20\n" for x in range(100, 250)))
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    lines = printed(capsys, "diff", "-q", "set").splitlines()
    assert lines[0].split() == ["x", "y", "_change_type"]
    assert (len(lines), lines[-1]) == (2 + 100 + 1, "… more rows; use -o FILE")
    dynq("mark", "hourly", "--at", "2")
    assert len(printed(capsys, "diff", "-q", "set", "--since", "hourly", "--advance").splitlines()) == 151


def batch_of(name: str) -> dict[str, Any] | None:
    schema = pq.read_schema(name) if name.endswith("parquet") else pa.ipc.open_file(name).schema
    text = (schema.metadata or {}).get(METADATA_KEY)
    return None if text is None else json.loads(text)


def test_parquet_and_arrow_files_say_which_change_they_are() -> None:
    dynq("diff", "-q", "bag", "--since", "1", "-o", "a.parquet")
    dynq("diff", "-q", "set", "--since", "0", "-o", "b.arrow")
    dynq("diff", "-q", "set", "--since", "2", "-o", "none.parquet")
    a, b = batch_of("a.parquet"), batch_of("b.arrow")
    assert a is not None and b is not None
    assert ((a["from"], a["to"]), (b["from"], b["to"])) == ((1, 2), (0, 2))
    assert a["source"].startswith("dynq:") and a["source"].endswith(":bag")
    assert a["source"].removesuffix("bag") == b["source"].removesuffix("set")
    assert batch_of("none.parquet") is None, "what goes from a version to itself is no batch"
    apply("R.2.csv", "x,y\n3,10\n")
    dynq("mark", "elsewhere")
    dynq("diff", "-q", "bag", "-o", "c.parquet")
    assert (batch_of("c.parquet") or {})["source"] == a["source"]
    dynq("init", "spec.yaml", "-s", "other")
    apply("R.4.csv", "x,y\n3,10\n", "-s", "other")
    dynq("diff", "-q", "bag", "-o", "d.parquet", "-s", "other")
    assert (batch_of("d.parquet") or {})["source"] != a["source"]


def test_another_state_applies_each_change_once_and_refuses_overlaps(capsys: Capture) -> None:
    Path("next.yaml").write_text(NEXT)
    dynq("init", "next.yaml", "-s", "next")
    dynq("mark", "next", "--at", "0")
    for number in range(2, 5):
        dynq("diff", "-q", "bag", "--since", "next", "--advance", "-o", f"bag.{number}.parquet")
        dynq("apply", f"bag.{number}.parquet", "-s", "next")
        assert main(["apply", f"bag.{number}.parquet", "-s", "next"]) == 0
        assert "was applied before" in capsys.readouterr().err
        assert result(capsys, "all_bag", "-s", "next") == result(capsys, "bag")
        apply(
            f"R.{number}.csv", f"x,y,_change_type\n{number},20,insert\n2,20,{'delete' if number == 3 else 'insert'}\n"
        )
    dynq("diff", "-q", "bag", "--since", "2", "-o", "bag.over.parquet")
    assert main(["apply", "bag.over.parquet", "-s", "next"]) == 3
    assert "overlaps" in capsys.readouterr().err
    dynq("diff", "-q", "bag", "--since", "next", "-o", "bag.over.parquet")
    dynq("apply", "bag.over.parquet", "-s", "next")
    assert result(capsys, "all_bag", "-s", "next") == result(capsys, "bag")


def test_diffs_in_a_folder_are_applied_one_after_the_other_whatever_their_names_say(capsys: Capture) -> None:
    Path("next.yaml").write_text(NEXT)
    dynq("init", "next.yaml", "-s", "next")
    dynq("mark", "next", "--at", "0")
    Path("out").mkdir()
    for number in range(2, 12):
        apply(f"R.{number}.csv", f"x,y,_change_type\n{number},10,insert\n{number - 1},10,delete\n")
        dynq("diff", "-q", "set", "--since", "next", "--advance", "-o", f"out/set.{number}.parquet")
    Path("out/bag.csv").write_text("x,y,z\n1,2,3\n")
    Path("out/set.7x.csv").write_text("x,y\n70,70\n")
    assert main(["apply", "out", "-s", "next", "--json"]) == 0
    applied = [log["path"] for log in json.loads(capsys.readouterr().out)["applied"]]
    names = sorted(["out/bag.csv", "out/set.7x.csv", *(f"out/set.{number}.parquet" for number in range(2, 12))])
    diffs = iter(range(2, 12))
    assert applied == [f"out/set.{next(diffs)}.parquet" if name.endswith("parquet") else name for name in names]
    assert result(capsys, "all_set", "-s", "next") == result(capsys, "set") + Counter({(70, 70): 1})


def test_a_file_that_is_no_batch_is_refused_when_its_turn_comes(capsys: Capture) -> None:
    Path("next.yaml").write_text(NEXT)
    dynq("init", "next.yaml", "-s", "next")
    dynq("diff", "-q", "set", "-o", "set.1.parquet")
    table = pq.read_table("set.1.parquet")
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: b"who knows"}), "set.2.parquet")
    dynq("apply", "set.1.parquet", "set.2.parquet", "-s", "next", code=3)
    assert "set.2.parquet is no batch id" in capsys.readouterr().err
    assert result(capsys, "all_set", "-s", "next") == result(capsys, "set")


def random_log(chance: Random, stored: dict[str, Rows], relation: str) -> str:
    """Rows that come and rows that go, as CSV; what is stored afterwards is noted."""
    lines = []
    for _ in range(chance.randint(1, 6)):
        rows = stored[relation]
        if rows and chance.random() < 0.45:
            row, kind = chance.choice(sorted(rows.elements())), "delete"
            rows[row] -= 1
            stored[relation] = +rows
        else:
            row, kind = (chance.randrange(4), chance.randrange(4)), "insert"
            rows[row] += 1
        lines.append(f"{row[0]},{row[1]},{kind}\n")
    columns = {"R": "x,y", "S": "y,z"}[relation]
    return f"{columns},_change_type\n" + "".join(lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_states_in_cascade_agree_and_old_versions_stay_as_they_were(
    seed: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    Path("next.yaml").write_text(NEXT)
    dynq("init", "next.yaml", "-s", "next")
    dynq("mark", "bag", "--at", "0")
    dynq("mark", "set", "--at", "0")
    stored: dict[str, Rows] = {"R": Counter([(1, 10), (2, 20)]), "S": Counter([(10, 5), (10, 5), (20, 6)])}
    seen = {version: {q: result(capsys, q, "--at", str(version)) for q in ("bag", "set")} for version in range(3)}
    for step in range(12):
        monkeypatch.setattr(commit, "DUE_SECONDS", chance.choice([-1.0, 0.1]))
        relation = chance.choice(["R", "S"])
        apply(f"{relation}.step{step}.csv", random_log(chance, stored, relation))
        seen[step + 3] = {q: result(capsys, q) for q in ("bag", "set")}
        expected: Rows = Counter()
        for (x, y), many in stored["R"].items():
            for (other, z), copies in stored["S"].items():
                expected[(x, y, z)] += many * copies * (y == other)
        assert seen[step + 3]["bag"] == +expected
        for query in ("bag", "set"):
            oldest = mark_at(capsys, query)
            version = chance.randint(oldest, step + 3)
            before = seen[version][query]
            assert result(capsys, query, "--at", str(version)) == before
            assert int(printed(capsys, "count", "-q", query, "--at", str(version))) == before.total()
            assert changed(capsys, query, "--since", str(version)) == minus(seen[step + 3][query], before)
            if chance.random() < 0.4:
                name = f"{query}.{step}.{chance.choice(['parquet', 'arrow', 'csv', 'jsonl'])}"
                dynq("diff", "-q", query, "--since", query, "--advance", "-o", name)
                dynq("apply", name, "-s", "next")
                assert result(capsys, f"all_{query}", "-s", "next") == seen[step + 3][query]
        if chance.random() < 0.2:
            dynq("prune")


STAR = """\
version: 1
relations:
  A: {columns: {k: int64, a: int64}}
  B: {columns: {k: int64, b: int64}}
  C: {columns: {k: int64, c: int64}}
queries:
  star: {sql: "SELECT A.k, a, b, c FROM A, B, C WHERE A.k = B.k AND B.k = C.k"}
"""


def star(folder: str, cold: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int, int]:
    """Rows of the result, rows that the diff of a small change wrote and looked at, and rows it had to list."""
    hot = list(range(100))
    rows = [(k, v) for k in hot for v in range(2)] + [(1000 + k, v) for k in range(cold) for v in range(10)]
    Path("star.yaml").write_text(STAR)
    with dynq_cli.create("star.yaml", folder) as view:
        keys, values = zip(*rows, strict=True)
        view.apply({name: pa.table({"k": keys, name.lower(): values}) for name in "ABC"})
        view.apply(pa.table({"k": hot, "a": [7] * 100}), "A")
        looked, listed = [], []
        combinations = dirty_set.DirtySet.combinations

        def counted(self: Any, block: int) -> Iterator[Any]:
            listed.append(len(self.wheels.lists))
            for found in combinations(self, block):
                looked.append(found.many)
                yield found

        with monkeypatch.context() as patch:
            patch.setattr(dirty_set.DirtySet, "combinations", counted)
            wrote = sum(batch.num_rows for batch in view.diff().batches)
        return view.count(), wrote, sum(looked), sum(listed)


def test_the_work_is_that_of_the_change_whatever_the_size_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    small, *work = star("small", 0, monkeypatch)
    large, *same = star("large", 120, monkeypatch)
    assert large > 100 * small
    assert work == same
    assert work[0] == work[1] == 100 * 2 * 2, "every row that was looked at had changed"
