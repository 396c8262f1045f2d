"""`dynq apply --replace`: the file is the whole relation, and its difference to what is there is one version."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError
from dynq_cli.session.replace import replace_relations
from tests.storage.random_tables import SPEC as RANDOM
from tests.storage.random_tables import RandomTables, Row, as_columns, found_rows

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: "int64?"}, key: [x]}
  S: {columns: {y: int64}}
  T: {columns: {k: int64, v: string}, key: [k], source: {deleted_when: gone, op: {column: act, delete: [del]}}}
queries:
  pairs: {sql: "SELECT x, R.y FROM R, S WHERE R.y = S.y"}
"""


@pytest.fixture
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    Path("R.csv").write_text("x,y\n1,10\n2,20\n3,\n")
    Path("S.csv").write_text("y\n10\n20\n20\n")
    assert main(["init", "spec.yaml", "--quiet"]) == 0
    assert main(["apply", "--replace", "R.csv", "--replace", "S=S.csv", "--quiet"]) == 0
    capsys.readouterr()


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(".dynq").iterdir() if path.name != "lock"}


def done(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main(["apply", *args, "--json"]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)["applied"]
    assert isinstance(outcome, dict)
    return outcome


def dumped(relation: str) -> list[tuple[Any, ...]]:
    with dynq_cli.open() as view:
        table = pa.Table.from_batches(view.dump(relation), view.relation_schema(relation))
    return sorted(tuple(row.values()) for row in table.to_pylist())


def refused(capsys: pytest.CaptureFixture[str], *args: str, code: int = 3) -> str:
    before = files()
    assert main(["apply", *args]) == code
    assert files() == before
    return capsys.readouterr().err


@pytest.mark.usefixtures("_state")
def test_the_difference_is_one_version_and_the_same_again_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.csv").write_text("x,y\n4,20\n1,11\n3,\n")
    outcome = done(capsys, "--replace", "R=R.csv", "--diff", "diff.csv")
    assert (outcome["version"], outcome["form"], outcome["rows"]) == (2, "replace", 3)
    assert (outcome["inserted"], outcome["replaced"], outcome["deleted"]) == (1, 1, 1)
    assert dumped("R") == [(1, 11), (3, None), (4, 20)]
    assert sorted(Path("diff.csv").read_text().splitlines()[1:]) == ["1,10,delete,1", "2,20,delete,2", "4,20,insert,2"]
    before = files()
    assert main(["apply", "--replace", "R=R.csv"]) == 0
    assert "nothing changed" in capsys.readouterr().err
    assert files() == before
    assert main(["verify"]) == 0


@pytest.mark.usefixtures("_state")
def test_copies_of_rows_without_key_are_compared_and_counts_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.csv").write_text("y,_count\n20,1\n10,3\n30,2\n30,1\n")
    outcome = done(capsys, "--replace", "S=all.csv")
    assert (outcome["inserted"], outcome["replaced"], outcome["deleted"]) == (5, 0, 1)
    assert dumped("S") == [(10, 3), (20, 1), (30, 3)]
    assert main(["dump", "S", "-o", "S.parquet"]) == 0
    assert done(capsys, "--replace", "S.parquet")["version"] is None
    Path("empty").mkdir()
    Path("empty/S.csv").write_text("y\n")
    assert done(capsys, "--replace", "empty/S.csv")["deleted"] == 7
    assert dumped("S") == []


@pytest.mark.usefixtures("_state")
def test_a_dry_run_says_what_would_be_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.csv").write_text("x,y\n1,10\n")
    assert "would be version 2, 0 inserted, 0 replaced, 2 deleted (replace)" in _dry(capsys)
    assert len(dumped("R")) == 3


def _dry(capsys: pytest.CaptureFixture[str]) -> str:
    before = files()
    assert main(["apply", "--replace", "R.csv", "--dry-run"]) == 0
    assert files() == before
    return capsys.readouterr().err


@pytest.mark.usefixtures("_state")
def test_a_directory_replaces_the_relations_its_files_are_named_after(capsys: pytest.CaptureFixture[str]) -> None:
    Path("day").mkdir()
    Path("day/R.1.csv").write_text("x,y\n7,10\n")
    Path("day/R.2.csv").write_text("x,y\n8,30\n")
    Path("day/S.csv").write_text("y\n30\n")
    assert done(capsys, "--replace", "day")["version"] == 2
    assert (dumped("R"), dumped("S")) == ([(7, 10), (8, 30)], [(30, 1)])
    assert main(["count"]) == 0
    assert capsys.readouterr().out == "1\n"


@pytest.mark.usefixtures("_state")
def test_logs_and_full_dumps_of_one_name_do_not_stand_in_each_others_way(capsys: pytest.CaptureFixture[str]) -> None:
    Path("S.csv").write_text("y\n5\n")
    assert done(capsys, "S.csv")["version"] == 2  # as a log: an insert
    assert dumped("S") == [(5, 1), (10, 1), (20, 2)]
    assert done(capsys, "--replace", "S.csv")["version"] == 3
    assert done(capsys, "S.csv")["version"] is None  # this very log was applied
    Path("S.csv").write_text("y\n6\n")
    assert done(capsys, "--replace", "S.csv")["version"] == 4
    assert dumped("S") == [(6, 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n1,10\n1,11\n", "row 2, column x: has a key that is there already (1)"),
        ("x,y\n1,11\n9,1\n9,1\n", "row 3, column x: has a key that is there already (9)"),
        ("x,y,_count\n1,10,2\n", "row 1, column x: has 2 copies"),
        ("x,y\n1,10\n2,z\n", "row 2, column y"),
        ("x\n1\n", "column y: the column is missing"),
        ("y\n", "column x of R is missing"),
        ("x,y\n1,2\n,3\n", "row 2, column x: NULL"),
        ("x,y,_change_type\n1,10,insert\n", "it is a change log (canonical)"),
        ("x,y,_commit_version\n1,10,1\n", "it is a change log (canonical)"),
        ("x,y,Op\n1,10,I\n", "it is a change log (dms)"),
        ("x,y,is_deleted\n1,10,false\n", "is_deleted"),
        ("x,y,_relation\n1,10,R\n", "--replace RELATION=PATH"),
    ],
)
@pytest.mark.usefixtures("_state")
def test_what_is_no_whole_relation_is_rejected_with_its_place(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("R.csv").write_text(text)
    told = refused(capsys, "--replace", "R.csv")
    assert said in told and "R.csv" in told and "the state is at version 1" in told


@pytest.mark.usefixtures("_state")
def test_options_that_do_not_go_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for more in (["--upsert"], ["--atomic"], ["--relation", "R"], ["--allow-replay"], ["--on-missing-delete", "skip"]):
        assert more[0] in refused(capsys, "--replace", "R.csv", *more, code=2)
    assert "by itself" in refused(capsys, "S.csv", "--replace", "R.csv", code=2)
    assert "--replace RELATION=PATH" in refused(capsys, code=2)
    assert "already" in refused(capsys, "--replace", "R.csv", "--replace", "R=S.csv", code=2)
    assert "no relation `Q`" in refused(capsys, "--replace", "Q=R.csv", code=2)
    assert "names no file" in refused(capsys, "--replace", "R=", code=2)
    refused(capsys, "--replace", "R=gone.csv", code=2)
    Path("other.csv").write_text("x,y\n")
    assert "--replace RELATION=other.csv" in refused(capsys, "--replace", "other.csv", code=2)
    Path("nothing").mkdir()
    assert "no data files" in refused(capsys, "--replace", "R=nothing")


@pytest.mark.usefixtures("_state")
def test_rows_marked_as_deleted_are_absent(capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.csv").write_text(
        "x,y,_fivetran_deleted,_fivetran_synced\n"
        "1,10,true,2024-01-02\n2,21,false,2024-01-03\n2,20,false,2024-01-01\n5,,true,2024-01-01\n"
    )
    assert done(capsys, "--replace", "R.csv")["version"] == 2
    assert dumped("R") == [(2, 21)]
    Path("S.csv").write_text("y,_fivetran_deleted\n10,true\n20,false\n")
    done(capsys, "--replace", "S.csv")
    assert dumped("S") == [(20, 1)]
    Path("T.csv").write_text("k,v,gone\n1,a,0\n2,b,1\n")
    done(capsys, "--replace", "T.csv")
    assert dumped("T") == [(1, "a")]
    Path("T.csv").write_text("k,v,gone,act\n1,a,0,del\n")
    assert "it is a change log (source)" in refused(capsys, "--replace", "T.csv")


@pytest.mark.usefixtures("_state")
def test_the_library_replaces_relations_and_names_the_row_that_it_rejects() -> None:
    with dynq_cli.open() as view:
        assert view.replace({"R": pa.table({"x": [1, 9], "y": [10, 20]}), "S": pa.table({"y": [20]})}) == 2
        assert view.count() == 1
        assert view.replace(pa.table({"x": [9, 1], "y": [20, 10]}), "R") == 2
        for table, said in [
            (pa.table({"x": [4, 5, 5], "y": [1, 2, 3]}), r"R: row 3, column x: .* \(5\)"),
            (pa.table({"x": [1, 1], "y": [10, 10]}), r"R: row 2, column x"),
            (pa.table({"x": [1], "y": [10], "_change_type": ["insert"]}), "change log"),
        ]:
            before = files()
            with pytest.raises(RejectedError, match=said):
                view.replace(table, "R")
            assert files() == before and view.version == 2
    assert dumped("R") == [(1, 10), (9, 20)]


@pytest.mark.parametrize("seed", range(4))
def test_after_a_replace_the_relation_is_the_table_with_the_fewest_changes(seed: int, tmp_path: Path) -> None:
    print("seed", seed)
    tables = RandomTables(seed)
    (tmp_path / "spec.yaml").write_text(RANDOM)
    directory = tmp_path / "state"
    view = dynq_cli.create(tmp_path / "spec.yaml", directory)
    for _ in range(7):
        version, expected = view.version, Counter[str]()
        given: dict[str, pa.Table] = {}
        for relation in tables.chance.sample(tables.spec.relations, tables.chance.randint(1, 3)):
            old, new = +tables.rows[relation.name], tables.whole(relation)
            if tables.chance.random() < 0.2:
                new = Counter[Row](old)
            came, gone = new - old, old - new
            keys = [i for i, c in enumerate(relation.columns) if c.name in relation.key]
            again = {tuple(row[i] for i in keys) for row in came} & {tuple(row[i] for i in keys) for row in gone}
            replaced = len(again) if keys else 0
            expected += Counter(inserted=came.total() - replaced, replaced=replaced, deleted=gone.total() - replaced)
            listed = list(new.elements())
            tables.chance.shuffle(listed)
            given[relation.name] = pa.table(as_columns(relation, listed))
            tables.rows[relation.name] = new
        if tables.chance.random() < 0.4:
            assert view.replace(given) == version + bool(expected.total())
        else:
            for name, table in given.items():
                pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=3)
            outcome = replace_relations(view, [str(tmp_path / f"{name}.parquet") for name in given])
            assert {word: getattr(outcome, word) for word in ("inserted", "replaced", "deleted")} == {
                word: expected[word] for word in ("inserted", "replaced", "deleted")
            }
            assert (outcome.version is None) == (not expected.total())
        if tables.chance.random() < 0.4:
            view.close()
            view = dynq_cli.open(directory)
        for relation in tables.spec.relations:
            assert found_rows(view.dump(relation.name), relation) == +tables.rows[relation.name]
        assert main(["verify", "-s", str(directory), "--quiet"]) == 0
        if tables.chance.random() < 0.3:
            view.apply(tables.changes())
    view.close()
