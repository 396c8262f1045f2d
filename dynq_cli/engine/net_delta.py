"""The net delta of changes: signed multiplicities of base rows. It suffices to revert the changes.

    rows after = rows before + net(changes)

The net delta of inserts and deletes of whole rows follows from the changes. For changes by key, and deletes that may
find no row, it depends on the stored rows: `TouchedRows` reads them before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.codes import Codes, decode
from dynq_cli.engine.consolidate import NetDelta, consolidated, in_order
from dynq_cli.engine.engine import Changes, Engine
from dynq_cli.engine.ingest import encode_rows, operations
from dynq_cli.engine.kernels import base as kernels
from dynq_cli.engine.kernels import fields as f
from dynq_cli.values import change_kinds as k

if TYPE_CHECKING:
    from dynq_cli.engine.views import Views


def needs_look(changes: Changes) -> bool:
    """Whether the net delta of changes depends on the stored rows."""
    return bool((changes.ops >= f.UPSERT).any())


def plain_net_delta(changes: Changes) -> NetDelta:
    """Return the net delta of inserts and deletes of whole rows."""
    return NetDelta(changes.codes, np.where(changes.ops == f.INSERT, changes.counts, -changes.counts))


class TouchedRows:
    """The rows named by a batch, read before it is applied; `net` reads them again afterwards."""

    def __init__(self, engine: Engine, base: BaseLayout, changes: Changes) -> None:
        self._engine = engine
        self._base = base
        keys = len(base.relation.key) or changes.codes.shape[1]
        self._named = changes.codes[_first_of_each(changes.codes[:, :keys])]
        self._before = self._look()

    def _look(self) -> NetDelta:
        a, t = self._engine.arena, self._base.table
        rows = np.empty(len(self._named), np.int64)
        kernels.look_up(a.store, t, self._named, rows)
        places = a.tables["rows"][t] + rows[rows >= 0] * a.tables["stride"][t]
        codes = a.words[places[:, None] + np.arange(len(self._base.order))]
        return NetDelta(codes, a.words[places + a.tables["mult"][t]])

    def net(self) -> NetDelta:
        before, after = self._before, self._look()
        return joined([NetDelta(before.codes, -before.delta), after])


def look_around(views: Views, batch: Mapping[str, Changes]) -> dict[str, TouchedRows]:
    """Read the rows named by a batch, for the relations whose net delta depends on them."""
    return {
        name: TouchedRows(views.engine, views.base(name), changes)
        for name, changes in batch.items()
        if needs_look(changes)
    }


def joined(several: Sequence[NetDelta]) -> NetDelta:
    """Add net deltas: every row once, without zeros. O(rows log rows)."""
    codes, delta = np.concatenate([n.codes for n in several]), np.concatenate([n.delta for n in several])
    return NetDelta(*consolidated(codes, delta))


def _first_of_each(codes: Codes) -> Codes:
    order, is_first = in_order(codes)
    return np.sort(order[is_first])


def take_back(views: Views, nets: Mapping[str, NetDelta]) -> None:
    """Revert net deltas, as one commit. Costs as much as applying them."""
    bring(views, {name: NetDelta(net.codes, -net.delta) for name, net in nets.items()})


def bring(views: Views, nets: Mapping[str, NetDelta]) -> None:
    """Apply net deltas, as one commit. Raises BatchError with nothing changed."""
    views.attempt({name: as_changes(views, name, net) for name, net in nets.items() if len(net.delta)})


def as_changes(views: Views, relation: str, net: NetDelta) -> Changes:
    """Convert a net delta to inserts and deletes of whole rows, with the values that leaves compute. O(rows)."""
    base = views.base(relation)
    kinds = np.where(net.delta > 0, k.INSERT, k.DELETE).astype(np.int8)
    counts = np.abs(net.delta)
    if not base.computed and not base.filters:
        return operations(Changes(net.codes, kinds, counts), base)
    columns: dict[str, pa.Array] = {}
    for i, name in enumerate(base.order):
        column = base.relation.column(name)
        assert column is not None
        columns[name] = decode(net.codes[:, i], column.type, views.dictionaries)
    return operations(encode_rows(columns, kinds, counts, base, views.dictionaries), base)
