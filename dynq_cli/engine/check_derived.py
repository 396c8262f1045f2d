"""Check every derived relation against the results of the trees that feed it. For tests: O(data)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta_scan import BaseDeltaScan
from dynq_cli.engine.base_layout import PassageLayout
from dynq_cli.engine.changes import Codes
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.check_cycles import cycle_rows
from dynq_cli.engine.delta_routing import Outflow, Rows, Sink
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.grouped import Grouped, by_itself
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.partitioned import by_itself as partitions_by_themselves
from dynq_cli.engine.result_reader import ResultReader
from dynq_cli.engine.transient_rows import TransientRows
from dynq_cli.plan.program import Derived, relayed


def check_derived(layout: Layout, arena: Arena, reading: ResultReader, meaning: Evaluator) -> None:
    """Assert that derived relations equal the results that feed them, and that no change is pending."""
    check = _Check(layout, arena, reading, meaning)
    for name, derived in layout.derived.items():
        wanted = _counted(*check.fed(derived))
        if name not in check.relayed:
            given = _kept(layout, arena, name)
        elif derived.groups:
            given = _counted(*check.groups(name))
        else:
            given = wanted
        assert given == wanted, f"{name} is what feeds it"
        if name in check.relayed:
            assert not rows_of(arena, layout.bases[name].table), f"{name} is not kept"
    assert (arena.nodes["listed"] == 0).all(), "no row has changed between commits"
    assert (arena.nodes["ring"] == -1).all(), "no row is in a list of those that changed"
    assert (arena.nodes["first_told"] == -1).all(), "no range is about to change"
    assert (arena.nodes["side"] == f.NOW).all()


class _Check:
    def __init__(self, layout: Layout, arena: Arena, reading: ResultReader, meaning: Evaluator) -> None:
        self.layout, self.arena, self.reading, self.meaning = layout, arena, reading, meaning
        self.relayed = relayed(layout.steps)

    def fed(self, derived: Derived) -> tuple[Codes, Codes]:
        """The rows of a relation, and their multiplicities, as the results that feed it say."""
        layout = self.layout
        sink: Sink = Rows(derived.name, len(derived.relation.columns), lambda: 2**62)
        if derived.groups:
            sink = by_itself(derived.groups, self.meaning.labels)
        elif derived.partitions:
            sink = partitions_by_themselves(
                derived.partitions, self.meaning.order_labels, self.meaning.window_functions
            )
        for feed in derived.feeds:
            outflow = Outflow(layout.query_of(feed.tree), [(feed, sink)], self.meaning)
            if feed.tree in layout.passages:
                for codes, copies in self._passed(layout.passages[feed.tree], outflow.variables):
                    outflow.pass_on(codes, copies)
            elif feed.tree in layout.cycles:
                outflow.pass_on(*cycle_rows(layout.cycles[feed.tree], self.arena, outflow.variables))
            else:
                for codes, copies in self.reading.blocks(feed.tree, outflow.variables):
                    outflow.pass_on(codes, copies)
        return sink.finish()

    def groups(self, name: str) -> tuple[Codes, Codes]:
        rows = Grouped(self.arena, self.layout.groups[name], self.meaning.labels).rows().T
        return rows, np.ones(len(rows), np.int64)

    def _passed(self, passage: PassageLayout, variables: Sequence[str]) -> Iterator[tuple[Codes, Codes]]:
        """Yield all rows that pass a relation's filter, between commits."""
        name = passage.relation
        if name not in self.relayed:
            yield BaseDeltaScan(self.arena, passage, variables).rows()
            return
        derived = self.layout.derived[name]
        relay = TransientRows(derived, self.layout.bases[name], self.meaning)
        relay.take(*(self.groups(name) if derived.groups else self.fed(derived)))
        yield from relay.blocks(passage, variables)


def _counted(rows: Codes, copies: Codes) -> Counter[tuple[int, ...]]:
    return Counter({tuple(row): many for row, many in zip(rows.tolist(), copies.tolist(), strict=True)})


def _kept(layout: Layout, arena: Arena, name: str) -> Counter[tuple[int, ...]]:
    base = layout.bases[name]
    at = np.array([base.order.index(c.name) for c in base.relation.columns], np.int64)
    found: Counter[tuple[int, ...]] = Counter()
    for row in rows_of(arena, base.table):
        start = record(arena, base.table, row)
        codes: Codes = arena.words[start + at]
        found[tuple(codes.tolist())] = int(arena.words[start + int(arena.tables["mult"][base.table])])
    return found
