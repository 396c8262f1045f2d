"""Change logs of which every one depends on the one before, and what a state holds after the first few of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from tests.spark.snapshots import held

SPEC = """\
version: 1
relations: {R: {columns: {k: int64, n: int64}}}
queries: {q: {sql: "SELECT k, n FROM R WHERE n < 5"}}
"""
_OLD = 1_700_000_000


def name(number: int) -> str:
    return f"R.{number:04}.jsonl"


def put_files(folder: Path, numbers: range) -> None:
    """Every file adds two rows, and takes away one of the file before."""
    folder.mkdir(exist_ok=True)
    for i in numbers:
        rows = [("insert", i, 0), ("insert", i, 1), *([("delete", i - 1, 0)] if i else [])]
        lines = [json.dumps({"_change_type": kind, "k": k, "n": n}) for kind, k, n in rows]
        hidden, path = folder / f".{i}", folder / name(i)
        hidden.write_text("\n".join(lines), "utf-8")
        os.utime(hidden, (_OLD + i, _OLD + i))  # Spark takes files by age
        hidden.rename(path)


def files_held(state: Path) -> int:
    """Of how many files a state holds the changes: each of them once, and nothing of the others."""
    rows = held(state, "R")
    many = 1 + max((k for k, _ in rows), default=-1)
    expected = Counter({(i, 1): 1 for i in range(many)}) + Counter({(many - 1, 0): 1} if many else {})
    assert rows == expected, (
        f"{state} holds no whole number of files: {rows - expected} too much, {expected - rows} not"
    )
    return many
