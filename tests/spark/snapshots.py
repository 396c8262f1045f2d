"""Random snapshots of a table with columns of every type, and what a state holds of it."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dynq_cli.engine.base_rows import base_rows
from dynq_cli.session.apply_logs import Outcome, apply_logs, make
from dynq_cli.session.verify import verify
from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Relation
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.plans import read_plans
from dynq_cli.storage.recover import open_latest
from dynq_cli.storage.state import open as open_state
from dynq_cli.values.convert import arrow_type

POOLS: dict[str, list[Any]] = {
    "bool": [True, False],
    "int8": [-128, 0, 7, 127],
    "int16": [-32768, 5, 32767],
    "int32": [-(1 << 31), 0, 12, (1 << 31) - 1],
    "int64": [-(1 << 63) + 1, 0, 1, 2, 3, (1 << 63) - 1],
    "float32": [0.0, -0.0, 1.5, -2.25, math.inf, math.nan],
    "float64": [0.0, -0.0, 0.1, 1e300, -math.inf, math.nan],
    "decimal(15,2)": [Decimal("0.00"), Decimal("-12.50"), Decimal("9999999999999.99")],
    "decimal(30,5)": [Decimal("0.00001"), Decimal("-1234567890123456789012345.00000")],
    "string": ["", "a", 'he said "so"', "back\\slash", "two\nlines", "naïve ☃ 😀", " padded ", "1,5"],
    "binary": [b"", b"\x00\xff", b"abc"],
    "date": [date(1, 1, 1), date(1582, 10, 4), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    "time": [time(0, 0), time(12, 34, 56, 789012), time(23, 59, 59, 999999)],
    "timestamp": [datetime(1, 1, 1), datetime(1883, 11, 18, 12, 3, 58, 1), datetime(2038, 1, 19, 3, 14, 8)],
}
COLUMNS = {f"c_{name.split('(')[0]}_{i}": name for i, name in enumerate(POOLS)}

Row = tuple[Any, ...]


def spec_text(key: str = "") -> str:
    declared = ", ".join(f"{name}: '{kind}?'" for name, kind in COLUMNS.items())
    keyed = f", key: [{key}]" if key else ""
    return f"""\
version: 1
relations:
  R: {{columns: {{k: int64, part: string, {declared}}}{keyed}}}
  S: {{columns: {{part: string, n: int32}}}}
queries:
  joined: {{sql: "SELECT R.k, R.part, S.n FROM R JOIN S ON R.part = S.part"}}
  all_rows: {{sql: "SELECT k, part, {", ".join(COLUMNS)} FROM R"}}
"""


def random_row(rng: Random, k: int) -> Row:
    values = [None if rng.random() < 0.2 else rng.choice(pool) for pool in POOLS.values()]
    return (k, rng.choice(["a", "b", ""]), *values)


def random_history(rng: Random, versions: int, *, keyed: bool) -> list[list[Row]]:
    """Snapshots one after the other: rows that stay, change, come, go, change their key; some are empty."""
    history: list[list[Row]] = []
    rows: list[Row] = []
    for _ in range(versions):
        if rng.random() < 0.15:
            rows = []
        kept = [row for row in rows if rng.random() < 0.8]
        changed = [random_row(rng, row[0]) if rng.random() < 0.2 else row for row in kept]
        moved = [(rng.randrange(60), *row[1:]) if rng.random() < 0.1 else row for row in changed]
        rows = moved + [random_row(rng, rng.randrange(60)) for _ in range(rng.randrange(12))]
        if keyed:
            rows = list({(row[0], row[1]): row for row in rows}.values())
        else:
            rows += [rng.choice(rows) for _ in range(rng.randrange(6)) if rows]
        rng.shuffle(rows)
        history.append(list(rows))
    return history


def as_table(relation: Relation, rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(relation.columns)
    schema = pa.schema([(c.name, arrow_type(c.type)) for c in relation.columns])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def write_snapshot(folder: Path, relation: Relation, rows: list[Row]) -> str:
    folder.mkdir(parents=True)
    pq.write_table(as_table(relation, rows), folder / f"{folder.name}.parquet")
    return str(folder)


def as_bag(rows: list[Row]) -> Counter[Row]:
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def held(state: Path, relation: str) -> Counter[Row]:
    """What a state holds of a relation, with copies."""
    _, live = open_latest(state, read_plans(state, read_manifest(state)))
    bag: Counter[Row] = Counter()
    for batch in base_rows(live, relation):
        for row in batch.to_pylist():
            copies = row.pop("_count")
            bag[tuple(_plain(value) for value in row.values())] += copies
    return bag


def new_state(folder: Path, text: str) -> Relation:
    """A state in `folder/state` of the spec in `folder/spec.yaml`, with rows to join with; its relation R."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.yaml").write_text(text, "utf-8")
    loads = []
    spec = load_spec(folder / "spec.yaml")
    if spec.relation("S"):
        pq.write_table(pa.table({"part": ["a", "a", ""], "n": pa.array([1, 2, 3], pa.int32())}), folder / "S.parquet")
        loads.append(("S", str(folder / "S.parquet")))
    make(folder / "spec.yaml", folder / "state", loads).close()
    relation = spec.relation("R")
    assert relation is not None
    return relation


def apply(state: Path, *paths: Path) -> list[Outcome]:
    with open_state(state) as view:
        return apply_logs(view, [str(path) for path in paths])


def agrees_with_duckdb(state: Path) -> bool:
    return all(verdict.agrees for verdict in verify(state))
