"""Paths mean the groups of files a user would expect, and nothing outside of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.logs.discover import find_groups
from dynq_cli.io.logs.model import Group

RELATIONS = ("orders", "customers")


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"" if Path(name).name.startswith("_") else b"x")


def found(*paths: Path | str, relation: str | None = None, atomic: bool = False) -> list[Group]:
    return find_groups([str(path) for path in paths], RELATIONS, relation=relation, atomic=atomic)


def names(folder: Path, groups: list[Group]) -> list[list[str]]:
    return [[os.path.relpath(file.path, folder) for file in group.files] for group in groups]


@pytest.mark.parametrize(
    ("name", "relation", "form"),
    [
        ("orders.csv", "orders", "csv"),
        ("orders.2024-01-31.parquet", "orders", "parquet"),
        ("orders/2024-01-31.csv.gz", "orders", "csv"),
        ("orders/customers.jsonl", "customers", "jsonl"),
        ("orders.parquet/part-0.parquet", "orders", "parquet"),
        ("inbox/batch-7.arrow", None, "arrow"),
        ("inbox/Orders.csv", None, "csv"),
    ],
)
def test_a_file_is_a_group_and_says_its_relation(tmp_path: Path, name: str, relation: str | None, form: str) -> None:
    make(tmp_path, name)
    (group,) = found(tmp_path / name)
    (file,) = group.files
    assert (group.path, file.path) == (str(tmp_path / name),) * 2
    assert (file.relation, file.format) == (relation, form)


def test_the_option_says_the_relation_before_any_name(tmp_path: Path) -> None:
    make(tmp_path, "orders.csv", "x.csv")
    assert [g.files[0].relation for g in found(tmp_path, relation="customers")] == ["customers"] * 2
    with pytest.raises(UsageError, match="the spec has no relation items: it has customers, orders"):
        found(tmp_path, relation="items")


def test_a_file_in_the_working_directory_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "orders/day-1.csv")
    monkeypatch.chdir(tmp_path / "orders")
    assert found("day-1.csv")[0].files[0].relation == "orders"
    assert found(".")[0].files[0].relation == "orders"


def test_a_directory_means_its_files_by_name_and_paths_keep_their_order(tmp_path: Path) -> None:
    make(tmp_path, "in/b.csv", "in/a.jsonl", "in/10.csv", "in/9.csv", "in/deep/c.csv", "z.csv")
    make(tmp_path, "in/_x.csv", "in/.b.csv.crc", "in/_metadata/0.json", "in/.git/x.csv")
    groups = found(tmp_path / "z.csv", tmp_path / "in")
    assert names(tmp_path, groups) == [
        ["z.csv"],
        ["in/10.csv"],
        ["in/9.csv"],
        ["in/a.jsonl"],
        ["in/b.csv"],
        ["in/deep/c.csv"],
    ]
    assert [g.path for g in groups[:2]] == [str(tmp_path / "z.csv"), str(tmp_path / "in/10.csv")]


def test_an_empty_directory_means_nothing(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    assert found(tmp_path, atomic=True) == []


@pytest.mark.parametrize(
    "marks",
    [["_SUCCESS"], ["orders/_SUCCESS", "customers/_SUCCESS"], ["_SUCCESS", "orders/_SUCCESS", "customers/_SUCCESS"]],
)
def test_an_extraction_is_one_group(tmp_path: Path, marks: list[str]) -> None:
    make(tmp_path, "out/orders/part-1.parquet", "out/orders/part-0.parquet", "out/customers/part-0.csv")
    make(tmp_path / "out", *marks, "orders/.part-0.parquet.crc")
    (group,) = found(tmp_path / "out")
    assert names(tmp_path / "out", [group]) == [
        ["customers/part-0.csv", "orders/part-0.parquet", "orders/part-1.parquet"]
    ]
    assert [f.relation for f in group.files] == ["customers", "orders", "orders"]
    assert (group.path, group.extractions) == (str(tmp_path / "out"), (str(tmp_path / "out"),))


def test_the_output_of_one_relation_is_one_group(tmp_path: Path) -> None:
    make(tmp_path, "orders/part-0.csv", "orders/part-1.csv", "orders/_SUCCESS", "b7/part-0.csv", "b7/_SUCCESS")
    assert names(tmp_path, found(tmp_path / "orders")) == [["orders/part-0.csv", "orders/part-1.csv"]]
    assert [f.relation for f in found(tmp_path / "b7")[0].files] == [None]


def test_extractions_in_a_directory_are_groups_of_their_own(tmp_path: Path) -> None:
    make(tmp_path, "b2/orders/part-0.csv", "b2/_SUCCESS", "b1/orders/part-0.csv", "b1/orders/_SUCCESS", "a.csv")
    groups = found(tmp_path)
    assert names(tmp_path, groups) == [["a.csv"], ["b1/orders/part-0.csv"], ["b2/orders/part-0.csv"]]
    assert [g.extractions for g in groups] == [(), (str(tmp_path / "b1"),), (str(tmp_path / "b2"),)]


def test_empty_parts_of_an_extraction_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "orders/part-0.csv", "orders/_SUCCESS")
    (tmp_path / "orders/part-1.csv").write_bytes(b"")
    assert names(tmp_path, found(tmp_path / "orders")) == [["orders/part-0.csv"]]


@pytest.mark.parametrize(
    ("files", "given", "said"),
    [
        (["orders/part-0.csv"], "orders", "orders"),
        (["out/orders/part-0.csv", "out/orders/_SUCCESS", "out/customers/part-0.csv"], "out", "out/customers"),
        (["out/orders/_temporary/0/part-0.csv"], "out", "out/orders"),
        (["out/_SUCCESS", "out/orders/_temporary/0/x", "out/orders/part-0.csv"], "out", "out/orders"),
    ],
)
def test_an_unfinished_extraction_is_refused(tmp_path: Path, files: list[str], given: str, said: str) -> None:
    make(tmp_path, *files)
    with pytest.raises(RejectedError, match=r"has no _SUCCESS: the job that wrote it did not finish") as caught:
        found(tmp_path / given)
    assert str(caught.value).startswith(f"{tmp_path / said} has no")


def test_a_partition_is_refused_because_its_column_is_not_in_its_files(tmp_path: Path) -> None:
    make(tmp_path, "orders/day=2024-01-01/part-0.csv", "orders/_SUCCESS")
    with pytest.raises(RejectedError, match="write without partitionBy"):
        found(tmp_path / "orders")


def test_atomic_makes_one_group_of_all(tmp_path: Path) -> None:
    make(tmp_path, "a.csv", "in/b.csv", "b1/orders/part-0.csv", "b1/_SUCCESS")
    (group,) = found(tmp_path / "a.csv", tmp_path / "in", tmp_path / "b1", atomic=True)
    assert names(tmp_path, [group]) == [["a.csv", "in/b.csv", "b1/orders/part-0.csv"]]
    assert group.path == f"{tmp_path / 'a.csv'}, {tmp_path / 'in'}, {tmp_path / 'b1'}"
    assert group.extractions == (str(tmp_path / "b1"),)
    with pytest.raises(UsageError, match=r"a\.csv is named twice"):
        found(tmp_path / "a.csv", tmp_path / "a.csv", atomic=True)


def test_a_symbolic_link_out_of_a_directory_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "secret.csv", "elsewhere/x.csv", "in/a.csv")
    (tmp_path / "in" / "b.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(RejectedError, match=r"b\.csv is a symbolic link that leads out of its directory"):
        found(tmp_path / "in")
    (tmp_path / "in" / "b.csv").unlink()
    (tmp_path / "in" / "deep").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RejectedError, match="deep is a symbolic link that leads out"):
        found(tmp_path / "in")


def test_a_path_that_is_given_may_be_a_symbolic_link(tmp_path: Path) -> None:
    make(tmp_path, "real/orders.csv")
    (tmp_path / "in").symlink_to(tmp_path / "real")
    (tmp_path / "x.csv").symlink_to(tmp_path / "real/orders.csv")
    (tmp_path / "real/same.csv").symlink_to("orders.csv")
    assert names(tmp_path, found(tmp_path / "in", tmp_path / "x.csv")) == [
        ["in/orders.csv"],
        ["in/same.csv"],
        ["x.csv"],
    ]


@pytest.mark.parametrize(("target", "said"), [("gone.csv", "link to nothing"), (".", "a directory around it")])
def test_a_symbolic_link_to_nothing_or_around_is_refused(tmp_path: Path, target: str, said: str) -> None:
    (tmp_path / "x.csv").symlink_to(tmp_path / target)
    with pytest.raises(RejectedError, match=said):
        found(tmp_path)


def test_a_file_of_no_known_format_is_skipped_in_a_directory_with_a_warning(tmp_path: Path) -> None:
    make(tmp_path, "notes.txt", "orders.csv")
    (tmp_path / "data").write_bytes(b"PAR1....")
    os.mkfifo(tmp_path / "pipe.csv")
    heard: list[str] = []
    groups = find_groups([str(tmp_path)], RELATIONS, relation=None, atomic=False, warn=heard.append)
    assert names(tmp_path, groups) == [["data"], ["orders.csv"]]
    assert len(heard) == 2
    assert "notes.txt is skipped: nothing says its format" in heard[0]
    assert "pipe.csv is skipped: it is a pipe" in heard[1]


@pytest.mark.parametrize(("name", "said"), [("gone.csv", "there is no file"), ("notes.txt", "name it with one of")])
def test_a_path_that_is_given_must_be_a_log(tmp_path: Path, name: str, said: str) -> None:
    make(tmp_path, "notes.txt")
    with pytest.raises(UsageError, match=said):
        found(tmp_path / name)
