"""`dynq dump`: the rows of a base relation, all declared columns, in every form and of every version that is kept."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import UsageError
from tests.storage.random_tables import SPEC, RandomTables, Row, as_columns, found_rows

SMALL = """\
version: 1
relations:
  planes: {columns: {seats: "int64?", id: int64}, key: [id]}
  flights: {columns: {plane: int64, unused: string}}
queries:
  q: {sql: "SELECT f.plane FROM flights f, planes p WHERE f.plane = p.id AND p.seats > 100"}
"""


@pytest.fixture
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SMALL)
    with dynq_cli.create("spec.yaml") as view:
        view.apply(
            {
                "planes": pa.table({"id": [2, 1], "seats": [None, 180]}),
                "flights": pa.table({"plane": [1, 1, 2], "unused": ["a", "a", ""]}),
            }
        )
        view.mark("first")
        view.apply(pa.table({"id": [1], "_change_type": ["delete"]}), "planes")


@pytest.mark.usefixtures("_small")
def test_a_keyed_relation_has_its_columns_in_the_order_of_the_spec(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "planes"]) == 0
    assert capsys.readouterr().out == "seats,id\n,2\n"


@pytest.mark.usefixtures("_small")
def test_a_relation_without_key_has_copies_and_every_declared_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "flights", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(rows, key=lambda row: row["plane"]) == [
        {"plane": 1, "unused": "a", "_count": 2},
        {"plane": 2, "unused": "", "_count": 1},
    ]
    assert main(["dump", "flights", "--expand"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == ["1,a", "1,a", '2,""', "plane,unused"]


@pytest.mark.usefixtures("_small")
def test_a_version_or_mark_before_can_be_dumped(capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("1", "first"):
        assert main(["dump", "planes", "--at", version]) == 0
        assert sorted(capsys.readouterr().out.splitlines()) == [",2", "180,1", "seats,id"]
    assert main(["dump", "planes", "--at", "9"]) == 3
    assert "9" in capsys.readouterr().err


@pytest.mark.usefixtures("_small")
def test_an_unknown_relation_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "Planes", "-o", "out.csv"]) == 2
    assert "no relation Planes in the spec; there is planes, flights" in capsys.readouterr().err
    assert not Path("out.csv").exists()
    assert main(["dump", "q"]) == 2  # a query is not a relation


@pytest.mark.usefixtures("_small")
def test_a_limit_and_a_form_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "flights", "--limit", "1", "-o", "one.parquet"]) == 0
    assert pq.read_table("one.parquet").num_rows == 1
    assert main(["dump", "flights", "--expand", "--limit", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["dump", "flights", "-o", "out.xlsx"]) == 2
    assert main(["dump", "flights", "--limit", "0"]) == 0
    assert capsys.readouterr().out == "plane,unused,_count\n"


@pytest.mark.usefixtures("_small")
def test_rows_are_never_of_two_versions() -> None:
    with dynq_cli.open() as view:
        rows = view.dump("flights", block=1)
        next(rows)
        view.apply(pa.table({"plane": [7], "unused": ["x"]}), "flights")
        with pytest.raises(UsageError, match="cannot be read on"):
            next(rows)


@pytest.mark.parametrize("seed", range(6))
def test_dumps_are_what_the_changes_add_up_to(seed: int, tmp_path: Path) -> None:
    print("seed", seed)
    tables = RandomTables(seed)
    (tmp_path / "spec.yaml").write_text(SPEC)
    directory = tmp_path / "state"
    view = dynq_cli.create(tmp_path / "spec.yaml", directory)
    view.mark("all")  # keeps every version
    seen: list[dict[str, Counter[Row]]] = [{name: rows.copy() for name, rows in tables.rows.items()}]
    for _ in range(8):
        view.apply(tables.changes())
        seen.append({name: rows.copy() for name, rows in tables.rows.items()})
        if tables.chance.random() < 0.4:
            view.close()
            view = dynq_cli.open(directory)
        for relation in tables.spec.relations:
            found = found_rows(view.dump(relation.name, tables.chance.choice([1, 3, 65536])), relation)
            assert found == +tables.rows[relation.name]
        version = tables.chance.randrange(len(seen))
        for relation in tables.spec.relations:
            assert found_rows(view.dump(relation.name, at=version), relation) == +seen[version][relation.name]
    view.close()


@pytest.mark.parametrize("extension", ["parquet", "csv", "jsonl", "arrow"])
def test_what_a_dump_wrote_loads_into_another_state(
    extension: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = RandomTables(99)
    (tmp_path / "spec.yaml").write_text(SPEC)
    loads = []
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "one") as view:
        for relation in tables.spec.relations:
            tables.rows[relation.name] = tables.whole(relation, 40)
            view.apply(pa.table(as_columns(relation, tables.rows[relation.name].elements())), relation.name)
    for relation in tables.spec.relations:
        file = str(tmp_path / f"{relation.name}.{extension}")
        assert main(["dump", relation.name, "-s", str(tmp_path / "one"), "-o", file]) == 0
        loads += ["--load", f"{relation.name}={file}"]
    assert main(["init", str(tmp_path / "spec.yaml"), "-s", str(tmp_path / "two"), *loads]) == 0, capsys.readouterr()
    with dynq_cli.open(tmp_path / "two") as view:
        for relation in tables.spec.relations:
            assert found_rows(view.dump(relation.name), relation) == tables.rows[relation.name]
