"""What `extract delta` and `extract iceberg` write, applied, makes the state equal to the table; else they refuse."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dynq_cli.cli.app import main
from dynq_cli.session.apply_logs import apply_logs, make
from dynq_cli.storage.state import open
from tests.every_case import every_case
from tests.seeds import seeds

SPEC = """\
version: 1
relations: {R: {columns: {k: int64, s: string?, n: int32?, at: timestamp?}KEY}}
queries:
  q: {sql: "SELECT k, s FROM R"}
"""
SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)


def new_state(key: bool = True) -> None:
    Path("spec.yaml").write_text(SPEC.replace("KEY", ", key: [k]" if key else ""), "utf-8")
    make("spec.yaml", ".dynq").close()


def rows(random: Random, keys: list[int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"k": k, "s": random.choice(["a", "", None, "ü"]), "n": random.choice([None, 1]), "at": None} for k in keys],
        SCHEMA,
    )


def extract(*args: str) -> int:
    return main(["extract", *args, "--relation", "R", "--quiet"])


def held() -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    with open() as state:
        for batch in state.dump():
            for row in batch.to_pylist():
                found[row["k"], row["s"], row["n"]] += row.get("_count", 1)
    return found


def in_table(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter((row["k"], row["s"], row["n"]) for row in table.to_pylist())


def change(random: Random, place: str, key: bool) -> None:
    """One commit of any kind."""
    table = DeltaTable(place)
    there = table.to_pyarrow_table()["k"].to_pylist()
    fresh = [k for k in range(60) if k not in there or not key]
    match random.randrange(7):
        case 0 | 1:
            write_deltalake(table, rows(random, random.sample(fresh, min(3, len(fresh)))), mode="append")
        case 2:
            table.delete(f"k % 5 = {random.randrange(5)}")
        case 3:
            table.update({"s": "'changed'"}, predicate=f"k % 3 = {random.randrange(3)}")
        case 4:
            source = rows(random, random.sample(range(60), 5))
            merge = table.merge(source, "s.k = t.k", source_alias="s", target_alias="t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        case 5:
            table.optimize.compact()
        case 6 if random.random() < 0.3:
            write_deltalake(table, rows(random, random.sample(range(60), 4)), mode="overwrite")


@pytest.mark.parametrize("feed", [True, False], ids=["feed", "files"])
@pytest.mark.parametrize("key", [True, False], ids=["keyed", "keyless"])
@pytest.mark.parametrize("seed", seeds(1))
def test_a_delta_table_is_followed_commit_by_commit(seed: int, key: bool, feed: bool) -> None:
    """With its change data feed, and without, where the files that came and went say it."""
    random = Random(seed)
    new_state(key)
    write_deltalake("lake", rows(random, [1, 2, 3]), configuration=FEED if feed else None)
    for turn in range(5):
        for _ in range(random.choice((0, 1, 3))):
            change(random, "lake", key)
        stop = ["--to", str(random.randint(0, DeltaTable("lake").version()))] if random.random() < 0.2 else []
        code = extract("delta", "lake", "-o", f"logs/{turn}", *stop)
        if code == 3:  # it asks for a version before the one that the state has
            assert stop
            continue
        assert code == 0
        with open() as state:
            apply_logs(state, ["logs"] if Path("logs").exists() else [])
            if not stop:
                assert held() == in_table(DeltaTable("lake").to_pyarrow_table()), turn
                ((_, known),) = state._manifest.sources[f"delta:{DeltaTable('lake').metadata().id}"]
                assert known == str(DeltaTable("lake").version())


def test_the_first_extraction_has_all_rows_and_needs_no_feed(capsys: pytest.CaptureFixture[str]) -> None:
    new_state()
    write_deltalake("lake", rows(Random(1), [1, 2]))
    write_deltalake("lake", rows(Random(1), [3]), mode="append")
    assert extract("delta", "lake", "-o", "first", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["from"], said["to"], said["inserted"], said["written"]) == ("", "1", 3, True)
    assert extract("delta", "lake", "-o", "first") == 0  # the same again is not written again
    with open() as state:
        apply_logs(state, ["first"])
        assert apply_logs(state, ["first"])[0].version is None
    assert extract("delta", "lake", "-o", "nothing") == 0
    assert not Path("nothing").exists()
    write_deltalake("lake", rows(Random(1), [4]), mode="append")
    DeltaTable("lake").alter.set_table_properties(FEED)
    assert extract("delta", "lake", "-o", "second") == 0
    with open() as state:
        apply_logs(state, ["second"])
    assert held() == in_table(DeltaTable("lake").to_pyarrow_table())


def without_version(table: DeltaTable) -> None:
    table.create_checkpoint()
    Path(f"lake/_delta_log/{1:020}.json").unlink()


def with_deletion_vectors(table: DeltaTable) -> None:
    features = ["deletionVectors", "changeDataFeed"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features[:1],
        "writerFeatures": features,
    }
    Path(f"lake/_delta_log/{table.version() + 1:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")


def with_other_columns(table: DeltaTable) -> None:
    write_deltalake(table, pa.table({"k": [1], "x": [2]}), mode="overwrite", schema_mode="overwrite")


def with_a_file_that_no_feed_names(table: DeltaTable) -> None:
    """A delete whose feed lacks rows, as feeds of overwrites do at times."""
    table.delete("k = 2")
    path = Path(f"lake/_delta_log/{DeltaTable('lake').version():020}.json")
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    (feed,) = [action["cdc"] for action in actions if "cdc" in action]
    import pyarrow.parquet as pq

    changed = pq.read_table(Path("lake") / feed["path"])
    pq.write_table(changed.slice(0, 0), Path("lake") / feed["path"])
    feed["size"] = (Path("lake") / feed["path"]).stat().st_size
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


REFUSED = {
    "a version that is gone": (without_version, "has this version no more"),
    "deletion vectors": (with_deletion_vectors, "uses deletionVectors"),
    "other columns": (with_other_columns, "has no column s"),
    "a feed that lacks rows": (with_a_file_that_no_feed_names, "something is missing in it"),
}


@every_case("case", REFUSED, ids=str)
def test_a_table_whose_feed_would_be_wrong_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / case
    folder.mkdir()
    monkeypatch.chdir(folder)
    new_state()
    write_deltalake("lake", rows(Random(1), [1, 2]), configuration=FEED)
    assert extract("delta", "lake", "-o", "first") == 0
    with open() as state:
        apply_logs(state, ["first"])
    write_deltalake("lake", rows(Random(1), [3]), mode="append")
    prepare, said = REFUSED[case]
    prepare(DeltaTable("lake"))
    assert extract("delta", "lake", "-o", "second") == 3
    assert said in capsys.readouterr().err
    assert not Path("second").exists() and not [name for name in os.listdir(".") if name.startswith("second")]


def test_what_is_asked_for_wrongly_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    new_state()
    write_deltalake("lake", rows(Random(1), [1, 2]), configuration=FEED)
    Path("taken").mkdir()
    Path("taken/file").write_text("x")
    for args, code, said in (
        (["gone", "-o", "out"], 2, "is no Delta table"),
        (["lake", "-o", "out", "--to", "7"], 3, "has no version 7; the last one is 0"),
        (["lake", "-o", "out", "--from", "5"], 3, "comes after 0"),
        (["lake", "-o", "taken"], 2, "holds something else"),
    ):
        assert extract("delta", *args) == code
        assert said in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/warehouse")
    from pyiceberg import catalog as module

    monkeypatch.setattr(module, "_ENV_CONFIG", type(module._ENV_CONFIG)())
    made = load_catalog("lake")
    made.create_namespace("shop")
    return made


def test_appends_to_an_iceberg_table_are_followed_and_other_changes_refused(
    catalog: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(3)
    new_state()
    table = catalog.create_table("shop.r", SCHEMA)
    assert extract("iceberg", "lake:shop.r", "-o", "empty") == 3
    assert "has no snapshot yet" in capsys.readouterr().err
    for turn, keys in enumerate(([1, 2, 3], [], [4], [5, 6])):
        if keys:
            table.append(rows(random, keys))
        if turn == 3:
            table.append(rows(random, [7]))
        assert extract("iceberg", "lake:shop.r", "-o", f"logs/{turn}") == 0
        with open() as state:
            apply_logs(state, ["logs"])
        assert held() == in_table(catalog.load_table("shop.r").scan().to_arrow()), turn
    assert not Path("logs/1").exists()
    table.delete("k = 2")
    assert extract("iceberg", "lake:shop.r", "-o", "logs/9") == 3
    assert "is no append but" in capsys.readouterr().err
    assert extract("iceberg", "lake:shop.gone", "-o", "logs/9") == 2
    assert extract("iceberg", "lake:shop.r", "-o", "logs/9", "--from", "99") == 3
