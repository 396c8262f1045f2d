"""Every derived relation against the results that it is made from, read anew. For tests: O(data)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.changes import Codes
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.feeding import Outflow, Rows, Sink
from dynq_cli.engine.grouped import by_itself
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.meaning import Meaning
from dynq_cli.engine.passage import Passage
from dynq_cli.engine.reading import Reading


def check_derived(layout: Layout, arena: Arena, reading: Reading, meaning: Meaning) -> None:
    """Derived relations are what the trees before them amount to, and no change is left over."""
    for name, derived in layout.derived.items():
        sink: Sink = Rows(name, len(derived.relation.columns), lambda: 2**62)
        if derived.groups:
            sink = by_itself(derived.groups, meaning.labels)
        for feed in derived.feeds:
            outflow = Outflow(layout.plan_of(feed.tree), [(feed, sink)], meaning)
            if feed.tree in layout.passages:
                outflow.pass_on(*Passage(arena, layout.passages[feed.tree], outflow.variables).rows())
                continue
            for codes, copies in reading.blocks(feed.tree, outflow.variables):
                outflow.pass_on(codes, copies)
        rows, copies = sink.finish()
        wanted = Counter({tuple(row): many for row, many in zip(rows.tolist(), copies.tolist(), strict=True)})
        assert _kept(layout, arena, name) == wanted, f"{name} is what feeds it"
    assert (arena.N[:, f.N_FIRST] == -1).all(), "no row has changed between commits"
    assert (arena.N[:, f.N_TELL] == -1).all(), "no range is about to change"
    assert (arena.N[:, f.N_SIDE] == f.NOW).all()


def _kept(layout: Layout, arena: Arena, name: str) -> Counter[tuple[int, ...]]:
    base = layout.bases[name]
    at = np.array([base.order.index(c.name) for c in base.relation.columns], np.int64)
    found: Counter[tuple[int, ...]] = Counter()
    for row in rows_of(arena, base.table):
        start = record(arena, base.table, row)
        codes: Codes = arena.a64[start + at]
        found[tuple(codes.tolist())] = int(arena.a64[start + int(arena.T[base.table, f.T_MULT])])
    return found
