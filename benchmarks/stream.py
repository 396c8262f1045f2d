"""Tables as a stream of changes: random inserts of every relation a spec uses, then deletes and updates.

A stream is a list of commits, each with a share of every relation: `chunks` commits of inserts in random order, then a
fifth as many that delete or update a fifth of the rows. What the relations hold at any time is kept besides, for
DuckDB to compute results anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.spec.model import Relation, Spec

TOUCHED = 0.2
Commit = dict[str, pa.Table]


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
            if not parts:
                found[relation.name] = self._empty(relation)
                continue
            log = pa.concat_tables(parts)
            signs = pc.if_else(pc.is_in(log["_change_type"], _CAME), 1, -1)
            names = [c.name for c in relation.columns]
            copies = log.append_column("copies", signs).group_by(names).aggregate([("copies", "sum")])
            found[relation.name] = copies.filter(pc.greater(copies["copies_sum"], 0)).select(names)
        return found

    def _empty(self, relation: Relation) -> pa.Table:
        """A table without rows: one of a few rows may come late."""
        later = next(c[relation.name] for c in self.commits if relation.name in c)
        return later.slice(0, 0).drop_columns(["_change_type"])


_CAME = pa.array(["insert", "update_postimage"])


def stream(spec: Spec, table_of: Callable[[Relation], pa.Table], chunks: int, seed: int = 1) -> Stream:
    """The stream of a spec's relations, all of which have a key."""
    chance = np.random.default_rng(seed)
    commits: list[Commit] = [{} for _ in range(chunks + max(1, chunks // 5))]
    for relation in spec.relations:
        rows = table_of(relation)
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
