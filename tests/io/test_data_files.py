"""Paths mean the files a user would expect, each with its relation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.io.data_files import find_data_files


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "relation", "form"),
    [
        ("orders.csv", "orders", "csv"),
        ("orders.2024-01-31.parquet", "orders", "parquet"),
        ("orders.csv.gz", "orders", "csv"),
        ("orders.JSONL", "orders", "jsonl"),
        ("orders.feather", "orders", "arrow"),
        ("2024-orders.csv", "r_2024_orders", "csv"),
        ("lineitem/part-00000-abc.c000.snappy.parquet", "lineitem", "parquet"),
        ("lineitem.d/part-0.json", "lineitem", "jsonl"),
    ],
)
def test_a_file_says_its_relation_and_format(tmp_path: Path, name: str, relation: str, form: str) -> None:
    make(tmp_path, name)
    (found,) = find_data_files([str(tmp_path / name)])
    assert (found.relation, found.format) == (relation, form)


def test_a_directory_means_the_data_files_below_it_by_name(tmp_path: Path) -> None:
    make(
        tmp_path,
        "b.csv",
        "a/part-1.parquet",
        "a/part-0.parquet",
        "a/_SUCCESS",
        "a/.part-0.parquet.crc",
        "_bookkeeping/0.json",
        ".hidden/x.csv",
        "notes.txt",
    )
    found = find_data_files([str(tmp_path)])
    names = [(str(Path(f.path).relative_to(tmp_path)), f.relation) for f in found]
    assert names == [("b.csv", "b"), ("a/part-0.parquet", "a"), ("a/part-1.parquet", "a")]


def test_part_files_take_the_name_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "orders/part-0.csv")
    monkeypatch.chdir(tmp_path / "orders")
    assert [f.relation for f in find_data_files(["part-0.csv"])] == ["orders"]


def test_a_file_without_extension_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"PAR1....")
    assert find_data_files([str(tmp_path / "data")])[0].format == "parquet"


@pytest.mark.parametrize(
    ("name", "said"),
    [("gone.csv", "there is no file"), ("empty", "no data files below"), ("notes.txt", "name it with one of")],
)
def test_a_path_that_means_nothing_is_a_usage_error(tmp_path: Path, name: str, said: str) -> None:
    make(tmp_path, "notes.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DynqError, match=said) as caught:
        find_data_files([str(tmp_path / name)])
    assert isinstance(caught.value, UsageError)


def test_a_pipe_is_refused_because_files_are_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(UsageError, match="is a pipe or a device"):
        find_data_files([str(tmp_path / "t.csv")])


def test_a_name_that_is_not_utf8_is_refused_with_what_to_do(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/t\xff.csv"
    with open(name, "wb"):
        pass
    with pytest.raises(UsageError, match="is not UTF-8, and Arrow opens no other: rename the file"):
        find_data_files([os.fsdecode(name)])
