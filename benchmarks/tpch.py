"""TPC-H as a stream of changes: random inserts of every relation a spec uses, then deletes and updates.

The data is that of `tpchgen-cli`. A stream is a list of commits, each with a share of every relation: `chunks` commits
of inserts in random order, then a fifth as many that delete or update a fifth of the rows. What the relations hold
at any time is kept besides, for DuckDB to compute results anew.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from dynq_cli.engine.lossless import arrow_type
from dynq_cli.spec.model import Relation, Spec

TOUCHED = 0.2
Commit = dict[str, pa.Table]


def generated(folder: Path, scale: float) -> Path:
    """The directory with the data of a scale, written if it is not there."""
    target = folder / f"tpch-{scale:g}"
    if not (target / "lineitem.csv").exists():
        tool = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([tool, "csv", "-s", f"{scale:g}", f"--output-dir={target}"], check=True, capture_output=True)
    return target


def table_of(relation: Relation, folder: Path) -> pa.Table:
    """The rows of a relation, in the columns and types of the spec."""
    types = {c.name: arrow_type(c.type) for c in relation.columns}
    options = pv.ConvertOptions(column_types=types, include_columns=list(types))
    return pv.read_csv(folder / f"{relation.name}.csv", convert_options=options)


@dataclass
class Stream:
    """`commits` in order; `held(k)` is what the relations hold after the first k of them."""

    commits: list[Commit]
    spec: Spec

    @property
    def changes(self) -> int:
        return sum(len(table) for commit in self.commits for table in commit.values())

    def held(self, many: int) -> Commit:
        found: Commit = {}
        for relation in self.spec.relations:
            parts = [c[relation.name] for c in self.commits[:many] if relation.name in c]
            log = pa.concat_tables(parts)
            signs = pc.if_else(pc.is_in(log["_change_type"], _CAME), 1, -1)
            names = [c.name for c in relation.columns]
            copies = log.append_column("copies", signs).group_by(names).aggregate([("copies", "sum")])
            found[relation.name] = copies.filter(pc.greater(copies["copies_sum"], 0)).select(names)
        return found


_CAME = pa.array(["insert", "update_postimage"])


def stream(spec: Spec, folder: Path, chunks: int, seed: int = 1) -> Stream:
    """The stream of a spec's relations, all of which have a key."""
    chance = np.random.default_rng(seed)
    commits: list[Commit] = [{} for _ in range(chunks + max(1, chunks // 5))]
    for relation in spec.relations:
        rows = table_of(relation, folder)
        rows = rows.take(chance.permutation(len(rows)))
        for k, part in enumerate(np.array_split(np.arange(len(rows)), chunks)):
            if len(part):
                commits[k][relation.name] = _changes(rows.slice(part[0], len(part)), "insert")
        touched = chance.permutation(len(rows))[: int(TOUCHED * len(rows))]
        for k, part in enumerate(np.array_split(touched, len(commits) - chunks)):
            if len(part):
                commits[chunks + k][relation.name] = _touched(relation, rows, part, chance)
    return Stream(commits, spec)


def _touched(relation: Relation, rows: pa.Table, part: np.ndarray, chance: np.random.Generator) -> pa.Table:
    """Half of the rows go, the others get the values of another row, their key aside."""
    gone, changed = np.array_split(part, 2)
    old, other = rows.take(changed), rows.take(chance.integers(0, len(rows), len(changed)))
    new = {c.name: (old if c.name in relation.key else other)[c.name] for c in relation.columns}
    return pa.concat_tables(
        [
            _changes(rows.take(gone), "delete"),
            _changes(old, "update_preimage"),
            _changes(pa.table(new), "update_postimage"),
        ]
    )


def _changes(rows: pa.Table, kind: str) -> pa.Table:
    return rows.add_column(0, "_change_type", pa.repeat(kind, len(rows))).combine_chunks()
