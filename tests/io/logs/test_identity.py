"""A log is known by its batch where it says one, else by relation, name and content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from pyarrow import ipc

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.discover import find_groups
from dynq_cli.io.logs.identity import Identity, batch_of, identity_of
from dynq_cli.io.logs.model import BatchId, Group, LogFile

ID = {"source": "shop", "from": 3, "to": "7"}
BATCH = BatchId("shop", "3", "7")


def table(said: Any = None) -> pa.Table:
    text = said if isinstance(said, str) else json.dumps(said)
    return pa.table({"a": [1]}).replace_schema_metadata(None if said is None else {"dynq.batch": text})


def write(path: Path, said: Any = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table(said), path)
    elif path.suffix == ".arrow":
        with ipc.new_file(path, table(said).schema) as writer:
            writer.write_table(table(said))
    else:
        path.write_text("a\n1\n")
    return path


def group_of(*paths: Path) -> Group:
    (group,) = find_groups([str(path) for path in paths], ["orders"], relation=None, atomic=True)
    return group


def test_an_identity_is_relation_name_and_a_hash_of_all_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    (tmp_path / "orders.csv").write_bytes(content)
    file = LogFile(str(tmp_path / "orders.csv"), "csv", "orders")
    assert identity_of(file) == Identity("orders", "orders.csv", xxhash.xxh3_128_hexdigest(content), len(content))
    assert identity_of(LogFile(file.path, "csv", None)).relation == ""


def test_one_flipped_bit_is_another_content(tmp_path: Path) -> None:
    path = write(tmp_path / "orders.parquet")
    file = LogFile(str(path), "parquet", "orders")
    before, content = identity_of(file), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert identity_of(file).content != before.content


@pytest.mark.parametrize("name", ["d.parquet", "d.arrow"])
def test_the_batch_stands_in_the_metadata(tmp_path: Path, name: str) -> None:
    assert batch_of(group_of(write(tmp_path / name, ID))) == BATCH


@pytest.mark.parametrize("name", ["d.parquet", "d.arrow", "d.csv"])
def test_a_log_without_a_batch_has_none(tmp_path: Path, name: str) -> None:
    assert batch_of(group_of(write(tmp_path / name))) is None


def test_the_batch_of_an_extraction_stands_in_its_own_file(tmp_path: Path) -> None:
    write(tmp_path / "out/orders/part-0.csv")
    write(tmp_path / "out/orders/part-1.parquet")
    (tmp_path / "out/_SUCCESS").touch()
    assert batch_of(group_of(tmp_path / "out")) is None
    (tmp_path / "out/_batch.json").write_text(json.dumps(ID))
    assert batch_of(group_of(tmp_path / "out")) == BATCH


def test_an_extraction_without_rows_may_be_a_batch(tmp_path: Path) -> None:
    (tmp_path / "out/orders").mkdir(parents=True)
    (tmp_path / "out/orders/part-0.csv").touch()
    (tmp_path / "out/_SUCCESS").touch()
    relations = ["orders", "customers"]
    assert find_groups([str(tmp_path / "out")], relations, relation=None, atomic=False) == []
    (tmp_path / "out/_batch.json").write_text(json.dumps(ID))
    group = group_of(tmp_path / "out")
    assert (group.files, batch_of(group)) == ((), BATCH)
    with pytest.raises(RejectedError, match="they cannot be one version"):
        batch_of(group_of(tmp_path / "out", write(tmp_path / "d.parquet", {**ID, "to": 8})))
    assert batch_of(group_of(tmp_path / "out", write(tmp_path / "e.parquet", ID))) == BATCH


def test_a_batch_file_beside_plain_files_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "_batch.json").write_text(json.dumps(ID))
    assert batch_of(group_of(write(tmp_path / "orders.csv"))) is None


def test_files_of_different_batches_are_not_one_version(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.parquet", ID), write(tmp_path / "b.parquet", {**ID, "to": 8})
    with pytest.raises(RejectedError, match=r"from 3 to 7 and .* from 3 to 8: they cannot be one version"):
        batch_of(group_of(one, other))
    with pytest.raises(RejectedError, match=r"c\.csv is of no batch"):
        batch_of(group_of(one, write(tmp_path / "c.csv")))
    assert batch_of(group_of(one, write(tmp_path / "d.parquet", ID))) == BATCH


def test_a_part_that_says_another_batch_than_its_extraction_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "out/orders/part-0.parquet", {**ID, "source": "other"})
    (tmp_path / "out/_SUCCESS").touch()
    (tmp_path / "out/_batch.json").write_text(json.dumps(ID))
    with pytest.raises(RejectedError, match=r"part-0\.parquet says that it is the batch of other"):
        batch_of(group_of(tmp_path / "out"))


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        '"x"',
        "\x00",
        "[" * 100_000,
        '{"source": "s", "from": 1}',
        '{"source": "s", "from": 1.5, "to": 2}',
        '{"source": "s", "from": true, "to": 2}',
        '{"source": "s", "from": null, "to": 2}',
    ],
)
def test_a_malformed_batch_is_refused_by_name(tmp_path: Path, said: str) -> None:
    with pytest.raises(RejectedError, match=r"a\.parquet is no batch id: it has to be"):
        batch_of(group_of(write(tmp_path / "a.parquet", said)))
    write(tmp_path / "out/orders/part-0.csv")
    (tmp_path / "out/_SUCCESS").touch()
    (tmp_path / "out/_batch.json").write_text(said)
    with pytest.raises(RejectedError, match=r"_batch\.json is no batch id"):
        batch_of(group_of(tmp_path / "out"))


def test_a_batch_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "out/orders/part-0.csv")
    (tmp_path / "out/_SUCCESS").touch()
    (tmp_path / "elsewhere.json").write_text(json.dumps(ID))
    (tmp_path / "out/_batch.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(RejectedError, match=r"_batch\.json is a symbolic link"):
        batch_of(group_of(tmp_path / "out"))


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1PAR1")
    with pytest.raises(RejectedError, match=r"a\.parquet is damaged or not a Parquet file"):
        batch_of(group_of(tmp_path / "a.parquet"))


def test_a_part_of_an_extraction_is_named_with_its_directory(tmp_path: Path) -> None:
    for day in ("day-1", "day-2"):
        write(tmp_path / day / "orders/part-0.csv")
        (tmp_path / day / "_SUCCESS").touch()
    group = group_of(tmp_path / "day-1", tmp_path / "day-2")
    names = [identity_of(file, group.extractions).name for file in group.files]
    assert names == ["day-1/orders/part-0.csv", "day-2/orders/part-0.csv"]
