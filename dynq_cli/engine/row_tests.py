"""Test many rows of a result at once.

    RowTests(views, "q").copies(rows)    the multiplicity of each row of a batch, 0 if it is not in the result

Values are encoded by columns, and looked up by one kernel call per tree. O(rows), where a test is O(1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.engine.codes import Codes, encode
from dynq_cli.engine.frames import table_of
from dynq_cli.engine.kernels.fields import Flags
from dynq_cli.engine.pairs import split
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.views import Views, constant_of
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.plan.program import variables_of
from dynq_cli.query.normal_form import OutputColumn
from dynq_cli.values.convert import CodeError, convert


def copies_in(views: Views, query: str, rows: Any) -> Codes:
    """Return the multiplicity of each row of a table or frame."""
    tests, table = RowTests(views, query), table_of(rows)
    missing = [name for name in tests.columns if name not in table.column_names]
    if missing:
        raise UsageError(f"rows of {query} have the columns {', '.join(tests.columns)}; {missing[0]} is missing")
    found = [tests.copies(batch) for batch in table.select(tests.columns).to_batches()]
    return np.concatenate([np.zeros(0, np.int64), *found])


class RowTests:
    """Tests batches of rows; they have the result's columns by name, and may have others."""

    def __init__(self, views: Views, query: str) -> None:
        self.views = self._views = views
        self._query = query
        self._form = views.form_of(query)
        self.outputs = self._form.columns
        self.columns = [c.name for c in self._form.columns]
        views.require(query, "test")

    def copies(self, rows: pa.RecordBatch) -> Codes:
        """Return the multiplicity of each row, 0 or 1 for sets.

        RejectedError if a value does not fit its column, or a row has more than 2^63 - 1 copies.
        """
        possible: Flags = np.ones(rows.num_rows, np.bool_)
        codes: dict[str, Codes] = {}
        for c in self._form.columns:
            values = rows.column(c.name)
            if c.kind == "expression":
                possible &= _equal(values, constant_of(c))
                continue
            for variable, found in zip(variables_of(c), self._coded(c, values, possible), strict=True):
                known = codes.setdefault(variable, found)
                if known is not found:
                    possible &= known == found
        names = list(codes)
        table = np.array([codes[v] for v in names], np.int64).reshape(len(names), rows.num_rows)
        try:
            many = self._looked_up(names, table)
        except OverflowedError:
            message = f"query {self._query}: a row has more than 2^63 - 1 copies; use semantics: set"
            raise RejectedError(message) from None
        return np.where(possible, many, 0)

    def _looked_up(self, names: Sequence[str], table: Codes) -> Codes:
        if not self._views.is_told_apart(self._query):
            return self._walked(names, table)
        many = self._views.engine.copies_of(self._query, names, table)
        return np.minimum(many, 1) if self._form.semantics == "set" else many

    def _coded(self, column: OutputColumn, values: pa.Array, possible: Flags) -> Sequence[Codes]:
        """Return the codes of a column, two for a pair. Rows whose value the variable's type lacks are not possible."""
        try:
            typed = convert(values, column.type)
            if column.kind == "pair":
                return split(typed, column.type)
            kind = self._form.variable(column.source).type
            try:
                return [encode(convert(typed, kind), kind, self._views.dictionaries, intern=False)]
            except CodeError:
                if kind == column.type:
                    raise
        except CodeError as error:
            reason = f"row {error.row + 1}, column {column.name}: {error.reason}"
            raise RejectedError(reason) from None
        coded = [self._views.coded(self._form, column, value.as_py())[0] for value in typed]
        possible &= np.array([code is not None for code in coded], np.bool_)
        return [np.array([code or 0 for code in coded], np.int64)]

    def _walked(self, names: Sequence[str], wanted: Codes) -> Codes:
        """Count the rows with these values where the result has columns that are not selected. O(result · log rows)."""
        keys, place = np.unique(wanted, axis=1, return_inverse=True)
        many, met = keys.shape[1], np.zeros(keys.shape[1], np.int64)
        for block, copies in self._views.engine.blocks(self._query, names):
            _, inverse = np.unique(np.concatenate([keys, block], axis=1), axis=1, return_inverse=True)
            inverse = inverse.reshape(-1)
            number = np.full(len(inverse), -1, np.int64)
            number[inverse[:many]] = np.arange(many)
            found = number[inverse[many:]]
            np.add.at(met, found[found >= 0], copies[found >= 0])
        return met[place.reshape(-1)]


def _equal(values: pa.Array, constant: pa.Scalar) -> Flags:
    """Return which values are the constant; NULL is NULL, and NaN is NaN."""
    typed = convert(values, constant.type) if values.type != constant.type else values
    if not constant.is_valid:
        found = pc.is_null(typed)
    else:
        found = pc.fill_null(pc.equal(typed, constant), False)
        if pa.types.is_floating(constant.type) and constant.as_py() != constant.as_py():
            found = pc.fill_null(pc.is_nan(typed), False)
    flags: Flags = found.to_numpy(zero_copy_only=False)
    return flags
