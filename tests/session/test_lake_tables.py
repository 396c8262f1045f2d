"""A directory that Delta, Iceberg or Hudi keeps as a table is refused by name, with the job that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.errors import EXIT_REJECTED, RejectedError
from dynq_cli.io.data_files import find_data_files
from dynq_cli.io.infer import infer_spec
from dynq_cli.io.lake_tables import lake_format
from dynq_cli.io.logs.discover import find_groups
from dynq_cli.session.apply_logs import apply_logs, make
from dynq_cli.storage.state import open as open_state

SPEC = """
version: 1
relations: {orders: {columns: {id: int64}}}
queries: {all_orders: {sql: SELECT id FROM orders}}
"""


def write_rows(path: Path, *ids: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(ids)}), path)


def delta_table(table: Path) -> None:
    """A table that was written, overwritten and deleted from: of twelve rows in three files, three are in force."""
    history: list[list[dict[str, object]]] = [
        [{"metaData": {"id": "t", "partitionColumns": []}}, {"add": {"path": "part-0.parquet"}}],
        [{"remove": {"path": "part-0.parquet"}}, {"add": {"path": "part-1.parquet"}}],
        [{"remove": {"path": "part-1.parquet"}}, {"add": {"path": "part-2.parquet"}}],
    ]
    write_rows(table / "part-0.parquet", 1, 2, 3, 4)
    write_rows(table / "part-1.parquet", 1, 2, 3, 4, 5)
    write_rows(table / "part-2.parquet", 1, 2, 3)
    (table / "_delta_log").mkdir()
    for version, actions in enumerate(history):
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (table / "_delta_log" / f"{version:020}.json").write_text(lines)


def delta_table_with_partitions(table: Path) -> None:
    write_rows(table / "day=2024-01-01" / "part-0.parquet", 1)
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / f"{0:020}.json").write_text('{"add": {"path": "day=2024-01-01/part-0.parquet"}}\n')


def iceberg_table(table: Path) -> None:
    write_rows(table / "data" / "00000-0-old.parquet", 1, 2)
    write_rows(table / "data" / "00000-1-new.parquet", 1)
    (table / "metadata").mkdir()
    (table / "metadata" / "v2.metadata.json").write_text('{"format-version": 2}')
    (table / "metadata" / "version-hint.text").write_text("2")


def hudi_table(table: Path) -> None:
    write_rows(table / "2024" / "01" / "f1_0_001.parquet", 1, 2)
    (table / "2024" / "01" / ".hoodie_partition_metadata").write_text("partitionDepth=2\n")
    (table / ".hoodie").mkdir()
    (table / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=orders\n")


TABLES = {
    "Delta": (delta_table, "part-1.parquet"),
    "Delta ": (delta_table_with_partitions, "day=2024-01-01/part-0.parquet"),
    "Iceberg": (iceberg_table, "data/00000-0-old.parquet"),
    "Hudi": (hudi_table, "2024/01/f1_0_001.parquet"),
}


@pytest.mark.parametrize("form", TABLES)
def test_every_command_refuses_the_table_its_files_and_a_directory_around_it(tmp_path: Path, form: str) -> None:
    write, part = TABLES[form]
    table = tmp_path / "lake" / "orders"
    write(table)
    (tmp_path / "spec.yaml").write_text(SPEC)
    spec, state = tmp_path / "spec.yaml", tmp_path / "state"
    make(spec, state)
    attempts: list[Callable[[str], object]] = [
        lambda path: infer_spec([path]),
        lambda path: apply_logs(open_state(state), [path]),
        lambda path: make(spec, tmp_path / "other", [("orders", path)]),
    ]
    for path in (table, tmp_path / "lake", table / part, (table / part).parent):
        for attempt in attempts:
            with pytest.raises(RejectedError) as caught:
                attempt(str(path))
            said = str(caught.value)
            assert f" {form.strip()} table" in said
            assert f"--format {form.strip().lower()} --relation" in said
            assert caught.value.exit_code == EXIT_REJECTED
    assert open_state(state).version == 0
    assert not (tmp_path / "other").exists()


def test_the_table_is_named_also_where_one_of_its_files_was_given(tmp_path: Path) -> None:
    delta_table(tmp_path / "orders")
    with pytest.raises(RejectedError) as caught:
        find_data_files([str(tmp_path / "orders" / "part-1.parquet")])
    assert str(caught.value).startswith(
        f"{tmp_path / 'orders' / 'part-1.parquet'} belongs to a table: {tmp_path / 'orders'} is a Delta table"
    )
    assert f"--after {tmp_path / 'orders'} --format delta --relation orders -o OUT" in str(caught.value)


def test_a_change_data_file_of_delta_is_a_log_when_it_is_named_itself(tmp_path: Path) -> None:
    delta_table(tmp_path / "orders")
    write_rows(tmp_path / "orders" / "_change_data" / "cdc-0.parquet", 1)
    (group,) = find_groups(
        [str(tmp_path / "orders" / "_change_data" / "cdc-0.parquet")], ["orders"], relation="orders", atomic=False
    )
    assert len(group.files) == 1


def test_directories_that_only_look_alike_are_read(tmp_path: Path) -> None:
    write_rows(tmp_path / "data" / "orders.parquet", 1)
    write_rows(tmp_path / "metadata" / "labels.parquet", 1)
    (tmp_path / "metadata" / "schema.json").write_text('{"a": 1}\n')
    assert lake_format(str(tmp_path)) is None
    assert [f.relation for f in find_data_files([str(tmp_path)])] == ["orders", "labels", "schema"]
    assert lake_format(str(tmp_path / "gone")) is None


def test_infer_refuses_partitions_as_apply_does(tmp_path: Path) -> None:
    write_rows(tmp_path / "orders" / "day=2024-01-01" / "part-0.parquet", 1)
    with pytest.raises(RejectedError, match="write without partitionBy"):
        find_data_files([str(tmp_path / "orders")])
