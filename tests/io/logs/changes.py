"""Logs as tests write and see them: files from texts or tables, changes as tuples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dynq_cli.io.data_files import Format
from dynq_cli.io.logs.model import LogFile, LogRows
from dynq_cli.io.logs.read import Log, read_log
from dynq_cli.spec.load import parse_spec
from dynq_cli.values.change_kinds import DELETE, INSERT, POSTIMAGE, PREIMAGE, UPSERT
from dynq_cli.values.convert import convert

SPEC = parse_spec(
    """
version: 1
relations:
  orders:
    columns:
      order_id: int64
      customer: string
      price: decimal(10,2)
      placed: date
      updated: timestamp
      note: string?
    key: [order_id]
  clicks: {columns: {page: string, user_id: int64}}
  customers: {columns: {id: int64, name: string}, key: [id]}
  visits: {columns: {id: int64, at: time, day: date, seen: timestamp?}}
  jobs: {columns: {id: int64, op: string}, key: [id]}
queries:
  q: {sql: "SELECT page FROM clicks"}
""",
    "shop.yaml",
)
KINDS = {INSERT: "insert", DELETE: "delete", PREIMAGE: "preimage", POSTIMAGE: "postimage", UPSERT: "upsert"}
_EXTENSIONS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}

# number of the row in its file, what it says, copies, commit, values by column
Change = tuple[int, str, int, int | None, dict[str, Any]]


def log_of(path: Path, of: str | None = None, **options: Any) -> Log:
    return read_log(LogFile(str(path), _EXTENSIONS[path.suffix], of), SPEC, **options)


def csv_log(folder: Path, text: str, of: str | None = "clicks", **options: Any) -> Log:
    (folder / "log.csv").write_text(text, "utf-8")
    return log_of(folder / "log.csv", of, **options)


def json_log(folder: Path, rows: Sequence[Any], of: str | None = "clicks", **options: Any) -> Log:
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return log_of(folder / "log.jsonl", of, **options)


def parquet_log(folder: Path, columns: Mapping[str, Any], of: str | None = "clicks", **options: Any) -> Log:
    pq.write_table(pa.table(dict(columns)), folder / "log.parquet")
    return log_of(folder / "log.parquet", of, **options)


def changes(log: Log) -> dict[str, list[Change]]:
    """All changes of a log by relation."""
    found: dict[str, list[Change]] = {}
    for rows in log.rows():
        found.setdefault(rows.relation, []).extend(_changes(rows))
    return found


def _changes(rows: LogRows) -> list[Change]:
    relation = SPEC.relation(rows.relation)
    assert relation is not None
    types = {c.name: c.type for c in relation.columns}
    columns = {name: convert(values, types[name]).to_pylist() for name, values in rows.columns.items()}
    assert {len(values) for values in columns.values()} <= {len(rows)}
    return [
        (
            int(rows.numbers[i]),
            KINDS[int(rows.kinds[i])],
            int(rows.counts[i]),
            None if rows.commits is None else int(rows.commits[i]),
            {name: values[i] for name, values in columns.items()},
        )
        for i in range(len(rows))
    ]
