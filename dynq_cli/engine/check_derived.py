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
from dynq_cli.engine.transient_groups import TransientGroups
from dynq_cli.plan.program import relayed


def check_derived(layout: Layout, arena: Arena, reading: ResultReader, meaning: Evaluator) -> None:
    """Assert that derived relations equal the results that feed them, and that no change is pending."""
    for name, derived in layout.derived.items():
        sink: Sink = Rows(name, len(derived.relation.columns), lambda: 2**62)
        if derived.groups:
            sink = by_itself(derived.groups, meaning.labels)
        elif derived.partitions:
            sink = partitions_by_themselves(derived.partitions, meaning.order_labels, meaning.window_functions)
        for feed in derived.feeds:
            outflow = Outflow(layout.query_of(feed.tree), [(feed, sink)], meaning)
            if feed.tree in layout.passages:
                for codes, copies in _passed(layout, arena, layout.passages[feed.tree], outflow.variables, meaning):
                    outflow.pass_on(codes, copies)
                continue
            if feed.tree in layout.cycles:
                outflow.pass_on(*cycle_rows(layout.cycles[feed.tree], arena, outflow.variables))
                continue
            for codes, copies in reading.blocks(feed.tree, outflow.variables):
                outflow.pass_on(codes, copies)
        rows, copies = sink.finish()
        wanted = Counter({tuple(row): many for row, many in zip(rows.tolist(), copies.tolist(), strict=True)})
        given = _given(layout, arena, name) if name in relayed(layout.steps) else _kept(layout, arena, name)
        assert given == wanted, f"{name} is what feeds it"
    assert (arena.nodes["listed"] == 0).all(), "no row has changed between commits"
    assert (arena.nodes["ring"] == -1).all(), "no row is in a list of those that changed"
    assert (arena.nodes["first_told"] == -1).all(), "no range is about to change"
    assert (arena.nodes["side"] == f.NOW).all()


def _passed(
    layout: Layout, arena: Arena, passage: PassageLayout, variables: Sequence[str], meaning: Evaluator
) -> Iterator[tuple[Codes, Codes]]:
    """Yield all rows that pass a relation's filter, between commits."""
    if passage.relation not in relayed(layout.steps):
        yield BaseDeltaScan(arena, passage, variables).rows()
        return
    relay = TransientGroups(layout.derived[passage.relation], layout.bases[passage.relation], meaning)
    rows = Grouped(arena, layout.groups[passage.relation], meaning.labels).rows().T
    relay.take(rows, np.ones(len(rows), np.int64))
    yield from relay.blocks(passage, variables)


def _given(layout: Layout, arena: Arena, name: str) -> Counter[tuple[int, ...]]:
    """Return the result rows of groups whose relation is not stored."""
    assert not rows_of(arena, layout.bases[name].table), f"{name} is not kept"
    return Counter(tuple(row) for row in Grouped(arena, layout.groups[name]).rows().T.tolist())


def _kept(layout: Layout, arena: Arena, name: str) -> Counter[tuple[int, ...]]:
    base = layout.bases[name]
    at = np.array([base.order.index(c.name) for c in base.relation.columns], np.int64)
    found: Counter[tuple[int, ...]] = Counter()
    for row in rows_of(arena, base.table):
        start = record(arena, base.table, row)
        codes: Codes = arena.words[start + at]
        found[tuple(codes.tolist())] = int(arena.words[start + int(arena.tables["mult"][base.table])])
    return found
