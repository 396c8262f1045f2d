"""Bad input, through the command line: exit code 3, the place and the reason named, the state as it was, every byte."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dynq_cli.cli.app import main

SPEC = """\
version: 1
relations:
  edge: {columns: {src: int64, dst: int64}}
  item:
    columns: {id: int64, name: string, price: "decimal(9,2)?"}
    key: [id]
  all:
    columns:
      b: bool?
      i8: int8?
      i16: int16?
      i32: int32?
      i64: int64?
      f32: float32?
      f64: float64?
      dec: decimal(9,2)?
      s: string?
      bin: binary?
      day: date?
      clock: time?
      at: timestamp?
queries:
  hops: {rule: "hops(a, b, c) :- edge(a, b), edge(b, c)"}
  items: {rule: "items(i, n) :- item(i, n, _)"}
  codes: {sql: "SELECT id, name::SMALLINT AS code FROM item WHERE name SIMILAR TO '[0-9]+'"}
"""
BATCH = {b"dynq.batch": json.dumps({"source": "db", "from": 10, "to": 20}).encode()}
Content = str | bytes | Callable[[Path], None]


@dataclass(frozen=True)
class Bad:
    """Files, how to apply them (in that order, where nothing is said), and what has to be said about them."""

    name: str
    files: Mapping[str, Content]
    says: tuple[str, ...]
    args: tuple[str, ...] = ()
    code: int = 3
    paths: tuple[str, ...] = field(default=())

    def write(self) -> list[str]:
        for name, content in self.files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        return [*(self.paths or self.files), *self.args]


def parquet(columns: Mapping[str, Any], metadata: Mapping[bytes, bytes] | None = None) -> Content:
    return lambda path: pq.write_table(pa.table(dict(columns)).replace_schema_metadata(metadata), path)


def arrow(columns: Mapping[str, Any]) -> Content:
    def write(path: Path) -> None:
        table = pa.table(dict(columns))
        with ipc.new_file(path, table.schema) as sink:
            sink.write_table(table)

    return write


def cut(content: Content, keep: Callable[[bytes], bytes]) -> Content:
    """A file that was written and then damaged."""

    def write(path: Path) -> None:
        assert callable(content)
        content(path)
        path.write_bytes(keep(path.read_bytes()))

    return write


def lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# A value that a type does not hold: as text in a CSV, as JSON, and as a column of Arrow.
WRONG: dict[str, tuple[str, Any, pa.Array]] = {
    "b": ("maybe", "maybe", pa.array(["x"])),
    "i8": ("128", 128, pa.array([128])),
    "i16": ("-32769", -32769, pa.array([-32769])),
    "i32": ("2147483648", 2147483648, pa.array([2**31])),
    "i64": ("9223372036854775808", "9223372036854775808", pa.array([2**63], pa.uint64())),
    "f32": ("fast", "fast", pa.array(["fast"])),
    "f64": ("1.5.2", [1.5], pa.array(["1.5"])),
    "dec": ("1.005", "1.005", pa.array(["1.00"])),
    "s": ("", 5, pa.array([5])),
    "bin": ("*no base64*", "*no base64*", pa.array([5])),
    "day": ("2024-02-30", "2024-02-30", pa.array(["2024-02-30"])),
    "clock": ("25:00:00", "25:00:00", pa.array([5], pa.int64())),
    "at": ("yesterday", "2024-01-01T99:00:00Z", pa.array(["yesterday"])),
}
GOOD: dict[str, tuple[str, Any, pa.DataType]] = {
    "b": ("true", True, pa.bool_()),
    "i8": ("1", 1, pa.int8()),
    "i16": ("1", 1, pa.int16()),
    "i32": ("1", 1, pa.int32()),
    "i64": ("1", 1, pa.int64()),
    "f32": ("1", 1, pa.float32()),
    "f64": ("1", 1, pa.float64()),
    "dec": ("1.5", "1.5", pa.decimal128(9, 2)),
    "s": ("x", "x", pa.string()),
    "bin": ("eA==", "eA==", pa.binary()),
    "day": ("2024-02-29", "2024-02-29", pa.date32()),
    "clock": ("12:00:00", "12:00:00", pa.time64("us")),
    "at": ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", pa.timestamp("us")),
}


def wrong_types() -> list[Bad]:
    """Every type in every format: the second row, or the whole column, is wrong in one column."""
    found = []
    for name, (text, value, column) in WRONG.items():
        says = (f"column {name}",)
        usual = [GOOD[n][0] for n in GOOD]
        if name != "s":  # any text is a string
            bad = [text if n == name else GOOD[n][0] for n in GOOD]
            content = "\n".join(",".join(row) for row in (list(GOOD), usual, bad)) + "\n"
            found.append(Bad(f"{name} in CSV", {"all.csv": content}, ("all.csv: row 2", *says)))
        rows = [{n: GOOD[n][1] for n in GOOD}, {n: value if n == name else GOOD[n][1] for n in GOOD}]
        found.append(Bad(f"{name} in JSON", {"all.jsonl": lines(*rows)}, ("all.jsonl: row 2", *says)))
        columns = {n: column if n == name else pa.nulls(1, GOOD[n][2]) for n in GOOD}
        found.append(Bad(f"{name} in Parquet", {"all.parquet": parquet(columns)}, ("all.parquet: row 1", *says)))
        found.append(Bad(f"{name} in Arrow", {"all.arrow": arrow(columns)}, ("all.arrow: row 1", *says)))
    return found


PLAIN = {"src": [1, 2], "dst": [3, 4]}
CASES = [
    Bad(
        "unknown operation",
        {"edge.csv": "_change_type,src,dst\ninsert,1,2\nupsert,1,2\n"},
        ("edge.csv: row 2, column _change_type", "upsert"),
    ),
    Bad(
        "operation NULL",
        {"edge.jsonl": lines({"_change_type": None, "src": 1, "dst": 2})},
        ("edge.jsonl: row 1, column _change_type", "NULL"),
    ),
    Bad("missing column", {"edge.csv": "src\n1\n"}, ("edge.csv: row 1, column dst", "missing")),
    Bad("missing column in Parquet", {"edge.parquet": parquet({"src": [1]})}, ("edge.parquet: row 1, column dst",)),
    Bad("column in other letters", {"edge.csv": "SRC,dst\n1,2\n"}, ("edge.csv: row 1, column src", "SRC")),
    Bad("NULL in CSV", {"edge.csv": "src,dst\n1,2\n1,\n"}, ("edge.csv: row 2, column dst", "NULL")),
    Bad("NULL in JSON", {"edge.jsonl": lines({"src": 1, "dst": 2}, {"src": 1})}, ("edge.jsonl: row 2, column dst",)),
    Bad(
        "NULL in Parquet",
        {"edge.parquet": parquet({"src": [1, None], "dst": [1, 2]})},
        ("edge.parquet: row 2, column src", "NULL"),
    ),
    Bad("NULL in a key", {"item.csv": "id,name,price\n5,x,1\n,y,1\n"}, ("item.csv: row 2, column id", "NULL")),
    Bad("smallest int64", {"edge.csv": f"src,dst\n1,{-(2**63)}\n"}, ("edge.csv: row 1, column dst",)),
    Bad(
        "digits before the point", {"item.csv": "id,name,price\n5,x,12345678.00\n"}, ("item.csv: row 1, column price",)
    ),
    Bad(
        "delete of a row that is not there",
        {"edge.csv": "_change_type,src,dst\ndelete,1,2\ndelete,8,9\n"},
        ("edge.csv: row 2", "not there", "8, 9"),
    ),
    Bad(
        "delete of more copies than there are",
        {"edge.csv": "_change_type,_count,src,dst\ndelete,3,1,2\n"},
        ("edge.csv: row 1", "not there"),
    ),
    Bad(
        "delete of a key that is not there",
        {"item.csv": "_change_type,id\ndelete,77\n"},
        ("item.csv: row 1, column id", "77"),
    ),
    Bad(
        "delete of an old image that differs",
        {"item.csv": "_change_type,id,name,price\ndelete,1,other,1.00\n"},
        ("item.csv: row 1",),
    ),
    Bad(
        "update of an old image that differs",
        {"item.csv": "_change_type,id,name,price\nupdate_preimage,1,other,1.00\nupdate_postimage,1,new,1.00\n"},
        ("item.csv: row 1",),
    ),
    Bad(
        "update of what is not there",
        {"item.csv": "_change_type,id,name,price\nupdate_preimage,9,a,1\nupdate_postimage,9,b,1\n"},
        ("item.csv: row 1",),
    ),
    Bad(
        "key that is in the table",
        {"item.csv": "id,name,price\n6,x,1\n1,again,1\n"},
        ("item.csv: row 2, column id", "there already"),
    ),
    Bad("key twice in the file", {"item.csv": "id,name,price\n5,x,1\n5,y,1\n"}, ("item.csv: row 2, column id",)),
    Bad(
        "copies of a row with a key",
        {"item.csv": "_count,id,name,price\n1,8,x,1\n2,9,x,1\n"},
        ("item.csv: row 2, column id: has 2 copies, and item has a key: one copy of each row (9)",),
    ),
    Bad("no copies", {"edge.csv": "_count,src,dst\n1,1,2\n0,1,2\n"}, ("edge.csv: row 2, column _count",)),
    Bad(
        "negative copies",
        {"edge.jsonl": lines({"_count": -1, "src": 1, "dst": 2})},
        ("edge.jsonl: row 1, column _count", "-1"),
    ),
    Bad("copies that are no number", {"edge.csv": "_count,src,dst\nmany,1,2\n"}, ("edge.csv: row 1, column _count",)),
    Bad(
        "commit version NULL",
        {"edge.csv": "_commit_version,src,dst\n1,1,2\n,1,2\n"},
        ("edge.csv: row 2, column _commit_version", "NULL"),
    ),
    Bad(
        "commit version as text",
        {"edge.csv": "_commit_version,src,dst\nfirst,1,2\n"},
        ("edge.csv: row 1, column _commit_version",),
    ),
    Bad(
        "commit version that goes back",
        {"edge.late.csv": "_commit_version,src,dst\n4,1,2\n"},
        ("edge.late.csv: row 1, column _commit_version", "--allow-replay"),
    ),
    Bad(
        "unknown relation",
        {"mixed.csv": "_relation,src,dst\nedge,1,2\nwedge,1,2\n"},
        ("mixed.csv: row 2, column _relation", "wedge"),
    ),
    Bad("relation NULL", {"mixed.csv": "_relation,src,dst\nedge,1,2\n,1,2\n"}, ("mixed.csv: row 2, column _relation",)),
    Bad("no relation", {"export.csv": "src,dst\n1,2\n"}, ("export.csv", "--relation")),
    Bad(
        "expression without a value",
        {"item.csv": "id,name,price\n5,six,\n6,7,\n7,99999,\n8,88888,\n"},
        ('item.csv: row 3, column name: CAST("name" AS SMALLINT) has no value', "'99999'"),
    ),
    Bad(
        "upsert of a relation without a key",
        {"edge.csv": "src,dst\n1,2\n"},
        ("edge.csv", "--upsert needs a key"),
        ("--upsert",),
    ),
    Bad(
        "new image without the old one and without a key",
        {"edge.csv": "_change_type,src,dst\nupdate_postimage,1,2\n"},
        ("edge.csv: row 1", "no key"),
    ),
    Bad(
        "bad UTF-8 in CSV",
        {"item.csv": b"more,id,name,price\n,5,x,1\n,6,\xff\xfe,1\n"},
        ("item.csv", "row 2, column name", "UTF8"),
    ),
    Bad("bad UTF-8 in JSON", {"item.jsonl": b'{"id":5,"name":"\xff","price":1}\n'}, ("item.jsonl", "line 1", "UTF-8")),
    Bad("bad JSON", {"edge.jsonl": '{"src":1,"dst":2}\n{"src":1,\n'}, ("edge.jsonl", "line 2")),
    Bad("JSON that is no object", {"edge.jsonl": '{"src":1,"dst":2}\n[1,2]\n'}, ("edge.jsonl", "line 2")),
    Bad("a key twice in a JSON row", {"edge.jsonl": '{"src":1,"dst":2,"src":3}\n'}, ("edge.jsonl", "src")),
    Bad("CSV row with too few fields", {"edge.csv": "src,dst\n1,2\n3\n"}, ("edge.csv", "row 2")),
    Bad("CSV row with too many fields", {"edge.csv": "src,dst\n1,2,3\n"}, ("edge.csv", "row 1")),
    Bad("CSV quote that is never closed", {"item.csv": 'id,name,price\n5,"x,1\n6,y,1\n'}, ("item.csv", "quote")),
    Bad("CSV with a column twice", {"edge.csv": "src,dst,src\n1,2,3\n"}, ("edge.csv", "src")),
    Bad("empty CSV", {"edge.csv": ""}, ("edge.csv",)),
    Bad("Parquet that was cut", {"edge.parquet": cut(parquet(PLAIN), lambda data: data[:-20])}, ("edge.parquet",)),
    Bad(
        "Parquet with a damaged page",
        {"edge.parquet": cut(parquet(PLAIN), lambda data: data[:4] + bytes(30) + data[34:])},
        ("edge.parquet",),
    ),
    Bad(
        "a file that only begins and ends as Parquet",
        {"edge.parquet": b"PAR1 and then nothing PAR1"},
        ("edge.parquet",),
    ),
    Bad("Arrow that was cut", {"edge.arrow": cut(arrow(PLAIN), lambda data: data[: len(data) // 2])}, ("edge.arrow",)),
    Bad("a file that only begins almost as Arrow", {"edge.arrow": b"ARROW2" + bytes(64)}, ("edge.arrow",)),
    Bad("CSV under the name of Parquet", {"edge.parquet": "src,dst\n1,2\n"}, ("edge.parquet",)),
    Bad("column of lists", {"edge.parquet": parquet({"src": [[1]], "dst": [2]})}, ("edge.parquet", "column src")),
    Bad("known name with other content", {"edge.first.csv": "src,dst\n5,6\n"}, ("edge.first.csv", "version 1")),
    Bad(
        "batch that overlaps",
        {"edge.b.parquet": parquet(PLAIN, {b"dynq.batch": b'{"source":"db","from":15,"to":30}'})},
        ("db", "15", "30"),
    ),
    Bad(
        "a batch id that is not an object",
        {"edge.b.parquet": parquet(PLAIN, {b"dynq.batch": b"[]"})},
        ("edge.b.parquet",),
    ),
    Bad(
        "batch id that goes back",
        {"edge.b.parquet": parquet(PLAIN, {b"dynq.batch": b'{"source":"n","from":9,"to":3}'})},
        ("9", "3"),
    ),
    Bad("extraction without _SUCCESS", {"edge/part-0.csv": "src,dst\n1,2\n"}, ("edge", "_SUCCESS"), paths=("edge",)),
    Bad("directory of a partition", {"in/day=1/edge.csv": "src,dst\n1,2\n"}, ("day=1", "partition"), paths=("in",)),
    Bad(
        "Debezium truncate",
        {"edge.jsonl": lines({"before": None, "after": None, "op": "t", "source": {"table": "edge"}, "ts_ms": 1})},
        ("edge.jsonl: row 1", "op"),
    ),
    Bad(
        "Debezium delete without its row",
        {"edge.jsonl": lines({"before": None, "after": None, "op": "d", "source": {}, "ts_ms": 1})},
        ("edge.jsonl: row 1",),
    ),
    Bad(
        "Flink's unknown kind",
        {"edge.csv": "row_kind,src,dst\n+I,1,2\n*X,1,2\n"},
        ("edge.csv: row 2, column row_kind",),
    ),
    Bad("weight that is no whole number", {"edge.csv": "_diff,src,dst\n0.5,1,2\n"}, ("edge.csv: row 1, column _diff",)),
    Bad(
        "weight that takes away what is not there", {"edge.csv": "_diff,src,dst\n-1,8,8\n"}, ("edge.csv: row 1", "8, 8")
    ),
    Bad("unknown operation of DMS", {"item.csv": "Op,id,name,price\nX,5,x,1\n"}, ("item.csv: row 1, column Op",)),
    Bad(
        "one bad file among good ones under --atomic",
        {"edge.a.csv": "src,dst\n7,8\n", "edge.b.csv": "src,dst\n7,x\n"},
        ("edge.b.csv: row 1, column dst",),
        ("--atomic",),
    ),
    Bad(
        "files with and without commit versions under --atomic",
        {"edge.a.csv": "src,dst\n7,8\n", "edge.b.csv": "_commit_version,src,dst\n9,7,8\n"},
        ("_commit_version",),
        ("--atomic",),
    ),
    Bad("a path that is not there", {}, ("edge.gone.csv",), paths=("edge.gone.csv",), code=2),
    Bad("a relation that is not there", {"edge.csv": "src,dst\n1,2\n"}, ("wedge",), ("--relation", "wedge"), code=2),
    Bad("a format that is not there", {"edge.csv": "src,dst\n1,2\n"}, ("runes",), ("--format", "runes"), code=2),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with a row or two; whatever is refused leaves it as it is, so all cases share it."""
    folder = tmp_path_factory.mktemp("bad")
    before = os.getcwd()
    os.chdir(folder)
    try:
        Path("spec.yaml").write_text(SPEC)
        Path("edge.first.csv").write_text("_change_type,_commit_version,src,dst\ninsert,5,1,2\n")
        Path("item.first.csv").write_text("id,name,price\n1,one,1.00\n")
        parquet({"src": [3], "dst": [4]}, BATCH)(Path("edge.batch.parquet"))  # type: ignore[operator]
        assert main(["init", "spec.yaml", "--quiet"]) == 0
        assert main(["apply", "edge.first.csv", "item.first.csv", "edge.batch.parquet", "--quiet"]) == 0
    finally:
        os.chdir(before)
    return folder / ".dynq"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("bad", [*CASES, *wrong_types()], ids=lambda bad: bad.name)
def test_it_is_refused_with_its_place_and_changes_nothing(
    bad: Bad, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = files_of(made)
    code = main(["apply", *bad.write(), "--state", str(made)])
    told = capsys.readouterr()
    assert code == bad.code, told.err
    assert told.out == ""
    for fragment in bad.says:
        assert fragment in told.err
    assert "Traceback" not in told.err
    assert files_of(made) == before


def test_there_are_enough_kinds_of_bad_input() -> None:
    refused = [bad.name for bad in CASES if bad.code == 3]
    assert len(set(refused)) == len(refused) >= 40


@pytest.mark.parametrize("bad", [case for case in CASES if case.name in ("NULL in CSV", "bad JSON", "missing column")])
def test_init_refuses_it_too_and_makes_nothing(
    bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (path,) = bad.write()
    Path("spec.yaml").write_text(SPEC)
    there = sorted(os.listdir())
    assert main(["init", "spec.yaml", "--load", f"edge={path}"]) == 3
    told = capsys.readouterr().err
    for fragment in bad.says:
        assert fragment in told
    assert sorted(os.listdir()) == there
