"""The base rows and results of a state of shards, as `verify` compares them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dynq_cli.engine.base_rows import base_rows
from dynq_cli.spec.model import CLOCK, Spec
from dynq_cli.storage.shards.routing import Router
from dynq_cli.storage.shards.state import ShardedState


@dataclass(frozen=True)
class KeptShards:
    """Every base row once, and every result as it is read."""

    state: ShardedState

    @property
    def spec(self) -> Spec:
        return self.state.spec

    def base_rows(self, relation: str) -> Iterator[pa.RecordBatch]:
        plan = self.state.top.plan
        if relation == CLOCK:
            several = (views for group in plan.groups for views in self.state.shards_of(group))
            yield from base_rows(next(v for v in several if v.spec.relation(CLOCK) is not None), CLOCK)
            return
        router = Router(self.spec, plan)
        home = next(group for group in plan.groups if group.name == plan.homes[relation])
        for number, views in enumerate(self.state.shards_of(home)):
            if router.counts(relation, (home.name, number)):
                yield from base_rows(views, relation)

    def kept_count(self, query: str) -> tuple[int, int] | None:
        found = self.state.kept_counts(query)
        return None if found is None else (found.rows, found.distinct)

    def is_tested(self, query: str) -> bool:
        """Whether a query is kept for tests alone."""
        written = self.spec.query(query)
        return written is not None and written.keep == "test"

    def rows(self, query: str) -> Iterator[pa.RecordBatch] | None:
        return None if self.is_tested(query) else self.state.enum(query)

    def has_copies(self, query: str) -> bool:
        return bool(self.state.schema(query).names[-1:] == ["_count"])

    def tests(self, query: str, rows: pa.RecordBatch) -> NDArray[np.int64]:
        return self.state.result(query).tests(pa.Table.from_batches([rows]))
