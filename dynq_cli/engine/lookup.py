"""Look up the multiplicities of many rows in the result of a tree.

    Lookup(reading, tree, variables).copies(codes)    the multiplicity of each row, 0 if it is not in the result

O(levels of the tree) per row; see `kernels.lookup`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynq_cli.engine.kernels import lookup as k
from dynq_cli.engine.kernels.fields import Words, rows_of
from dynq_cli.engine.result_reader import OverflowedError, ResultReader, level_above


class Lookup:
    """Looks up rows in one tree; `variables` are the columns of the rows and include the tree's head.

    A variable may be several columns: then only rows that agree in these are in the result.
    """

    def __init__(self, reading: ResultReader, tree: str, variables: Sequence[str]) -> None:
        self._arena = reading.arena
        layout, laid = reading.layout, reading.layout.trees[tree]
        first = {v: variables.index(v) for v in variables}
        self._same = [(first[v], i) for i, v in enumerate(variables) if first[v] != i]
        levels: list[tuple[int, ...]] = []
        fields: list[tuple[int, int]] = []
        for node, is_frontier in zip(laid.levels, laid.frontier, strict=True):
            start = len(fields)
            fields += [(first[v], layout.position(node, v)) for v in layout.variables[node]]
            on_base = int(layout.nodes["table"][node]) in layout.base_tables
            filtered = int(layout.nodes["leaf_row"][node]) if on_base else -1
            above = level_above(reading.arena, laid, node) + 1
            levels.append((node, above, filtered, start, len(fields), int(is_frontier)))
        self._levels = rows_of(k.LEVEL, np.array(levels, np.int64).reshape(-1, 6))
        self._fields = rows_of(k.FIELD, np.array(fields, np.int64).reshape(-1, 2))
        self._counted = laid.plan.query.semantics == "bag"
        self._widest = layout.widest

    def copies(self, codes: Words) -> Words:
        """Return the multiplicity of each row, at most 1 if the result is a set; `codes` has one row per variable.

        OverflowedError if a row has more than 2^63 - 1 copies.
        """
        a, found = self._arena, np.zeros(codes.shape[1], np.int64)
        fits = k.copies_of(
            a.store,
            self._levels,
            self._fields,
            self._counted,
            np.ascontiguousarray(codes),
            np.zeros(self._widest, np.int64),
            np.zeros(len(self._levels) + 1, np.int64),
            found,
        )
        if not fits:
            raise OverflowedError
        for one, other in self._same:
            found[codes[one] != codes[other]] = 0
        return found
