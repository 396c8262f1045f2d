"""Evaluate expressions and comparisons over codes for the engine, by decoding them.

Rows of derived relations are made inside the engine. This module evaluates the expressions and filters of leaves over
them, as `ingest` does for rows of change logs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Codes
from dynq_cli.engine.codes import decode, encode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.expressions import computed_of
from dynq_cli.engine.kernels.fields import Flags, Words
from dynq_cli.engine.order_labels import OrderLabels
from dynq_cli.engine.pairs import joined, split
from dynq_cli.engine.partition_layout import is_pair
from dynq_cli.plan.program import Derived, Partitions, high, low
from dynq_cli.query.normal_form import Comparison, Scalar
from dynq_cli.query.scalar import compare_shifted, evaluate
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import arrow_type


class Evaluator:
    """Evaluates over codes; calls `dictionaries` each time, as a restore may replace them."""

    def __init__(self, dictionaries: Callable[[], Dictionaries]) -> None:
        self._dictionaries = dictionaries

    def computed(self, derived: Derived, base: BaseLayout, codes: Codes) -> tuple[Codes, Flags]:
        """Return the computed values and filter results of the leaves for rows in the base table's columns.

        NoValueError if an expression has no value for a row.
        """
        return computed_of(lambda: self._rows(derived, base, codes), codes, base, self._dictionaries())

    def _rows(self, derived: Derived, base: BaseLayout, codes: Codes) -> pa.Table:
        """Decode the columns that expressions over a relation may need."""
        values = self._dictionaries()
        typed: dict[str, pa.Array] = {}
        held = {c.name: c for c in derived.relation.columns}
        for column in derived.columns:
            if not base.looks_at(column.name) and (typed or column != derived.columns[-1]):
                continue
            if column.name in held:
                typed[column.name] = decode(codes[:, base.order.index(column.name)], held[column.name].type, values)
            else:
                upper, lower = (base.order.index(part(column.name)) for part in (high, low))
                typed[column.name] = joined(codes[:, upper], codes[:, lower], column.type)
        return pa.table(typed)

    def window_functions(self, asked: Partitions, partitions: Codes, places: Codes, codes: Codes) -> Codes:
        """Return the columns of window functions for all rows of some partitions, given by column. ScalarError."""
        values = self._dictionaries()
        held = {c.name: (c.type, codes[i]) for i, c in enumerate(asked.inputs)}
        typed: dict[str, pa.Array] = {"_partition": pa.array(partitions), "_place": pa.array(places)}
        for column in asked.columns:
            if column.name in held:
                kind, coded = held[column.name]
                typed[column.name] = decode(coded, kind, values)
            else:
                upper, lower = (held[part(column.name)][1] for part in (high, low))
                typed[column.name] = joined(upper, lower, column.type)
        # Rows come as DuckDB has sorted them.
        number = np.arange(len(places))
        typed["_row"] = pa.array(number)
        at, *found = evaluate(pa.table(typed), ['"_row"', *(function.sql for function in asked.functions)])
        order = np.empty_like(number)
        order[at.combine_chunks().to_numpy()] = number
        made: list[Codes] = []
        for function, column in zip(asked.functions, found, strict=True):
            cast = column.take(pa.array(order)).cast(arrow_type(function.type))
            made += split(cast, function.type) if is_pair(function.type) else [encode(cast, function.type, values)]
        return np.stack(made)

    def labels(self, kind: Type) -> Words:
        """Return the labels of a type's ids."""
        return self._dictionaries().labels_of(kind)

    def order_labels(self) -> OrderLabels:
        """Return the labels of all ordered types."""
        return self._dictionaries().label()

    def holds(self, c: Comparison, left: Type, right: Type, mine: Codes, theirs: Codes) -> Flags:
        """Return for each row whether `left op right + offset` is true of the values."""
        values = self._dictionaries()
        table = pa.table({"l": decode(mine, left, values), "r": decode(theirs, right, values)})
        sides = Scalar('"l"', left, True, ("l",)), Scalar('"r"', right, True, ("r",))
        (found,) = evaluate(table, [compare_shifted(sides[0], c.op, sides[1], c.offset).sql])
        flags: Flags = np.asarray(found.combine_chunks().fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
        return flags
