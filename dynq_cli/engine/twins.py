"""Base rows that are one row of a leaf under two ids: one before a commit, the other after it.

A leaf on keyed base rows need not use all columns. If others change, the row goes and comes, and nothing of the leaf is
different.
"""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import Layout

# Rows, and where they are.
Found = tuple[Arena, Words]


def without_twins(layout: Layout, node: int, changed: Words, went: Found, came: Found) -> Words:
    """Return the changed rows of a node without twins among those that went and came. O(rows that went and came)."""
    table = int(layout.nodes["table"][node])
    used = [layout.position(node, v) for v in layout.variables[node]]
    uses_all = len(used) == layout.tables["arity"][table]
    if table not in layout.base_tables or uses_all or not len(went[1]) or not len(came[1]):
        return changed
    mine, theirs = (_keys(arena, table, rows, used) for arena, rows in (went, came))
    twins = [(went[1][i], came[1][theirs[key]]) for key, i in mine.items() if key in theirs]
    return changed[~np.isin(changed, np.array(twins, np.int64))]


def _keys(a: Arena, table: int, rows: Words, positions: list[int]) -> dict[bytes, int]:
    """Map the codes of rows in some columns to the index of the row."""
    places = a.tables["rows"][table] + rows * a.tables["stride"][table]
    codes = a.words[places[:, None] + np.array(positions, np.int64)]
    return {code.tobytes(): i for i, code in enumerate(codes)}
