"""Evaluate the expressions and filters of leaves for a batch of rows: with DuckDB, or from the cache.

Simple conditions need no DuckDB call, which takes as long as a thousand rows in the engine: comparisons of codes, and
LIKE (`predicates`).

Each condition of a filter is evaluated separately, so that it can be cached, and values are computed for all rows. If
an expression has no value for some row, evaluate again only where needed: a row that fails one condition needs no
other, and values are needed only for rows that pass a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from dynq_cli.engine.base_layout import Asked, BaseLayout, Computed
from dynq_cli.engine.codes import NULL, Codes, encode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.kernels.fields import Flags
from dynq_cli.engine.pairs import split
from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.scalar import ScalarError, conditions_hold, evaluate
from dynq_cli.values.convert import CodeError, arrow_type


class NoValueError(ScalarError):
    """An expression has no value for a row that needs one; `row` counts from 0."""

    def __init__(self, row: int, scalar: Scalar, reason: str) -> None:
        super().__init__(f"{scalar.sql} has no value: {reason}")
        self.row = row
        self.scalar = scalar


def computed_of(
    rows: Callable[[], pa.Table], codes: Codes, base: BaseLayout, dictionaries: Dictionaries
) -> tuple[Codes, Flags]:
    """Return the computed values and filter results of a relation's leaves. Raises NoValueError.

    `rows` returns the decoded columns that expressions need; it is called only if the codes do not suffice.
    """
    found: dict[Asked, Codes] = {each: told.holds(codes) for each, told in base.told.items()}
    for each, (place, kind) in base.alone.items():
        known = dictionaries.remembered.of(each, kind, codes[:, place])
        if known is not None:
            found[each] = known
    unknown = [each for each in base.asked if each not in found]
    if unknown:
        table = rows()
        given: dict[Asked, Codes] = {s: base.patterns[s].holds(_text(table, s)) for s in unknown if s in base.patterns}
        try:
            given |= _answers(table, [each for each in unknown if each not in given], dictionaries)
        except (ScalarError, CodeError):
            return _where_needed(table, base, dictionaries)
        for each, answer in given.items():
            if each in base.alone:
                place, kind = base.alone[each]
                dictionaries.remembered.learn(each, kind, codes[:, place], answer)
        found |= given
    passes = np.ones((len(codes), max(1, len(base.filters))), np.bool_)
    for i, several in enumerate(base.filters):
        for scalar in several:
            passes[:, i] &= found[scalar] != 0
    return _stacked([found[c] for c in base.computed], len(codes)), passes


def _text(rows: pa.Table, condition: Scalar) -> pa.Array:
    """Return the column of a LIKE condition."""
    (name,) = condition.columns
    column = rows[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _answers(rows: pa.Table, asked: Sequence[Asked], dictionaries: Dictionaries) -> dict[Asked, Codes]:
    """Evaluate with DuckDB: the codes of a value, 1 or 0 for a condition."""
    computed = [each for each in asked if isinstance(each, Computed)]
    conditions = [each for each in asked if not isinstance(each, Computed)]
    if not asked:
        return {}
    if not computed:
        flags = conditions_hold(rows, [s.sql for s in conditions])
        return {s: held.astype(np.int64) for s, held in zip(conditions, flags, strict=True)}
    scalars = list(dict.fromkeys(c.scalar for c in computed))
    values = evaluate(rows, [s.sql for s in (*scalars, *conditions)])
    of = dict(zip(scalars, values, strict=False))
    found: dict[Asked, Codes] = {c: _computed(of[c.scalar], c, dictionaries) for c in computed}
    found |= {s: _held(v).astype(np.int64) for s, v in zip(conditions, values[len(scalars) :], strict=True)}
    return found


def _where_needed(rows: pa.Table, base: BaseLayout, dictionaries: Dictionaries) -> tuple[Codes, Flags]:
    """Like `computed_of`, with values only for rows that need them; NULL for the others."""
    passes = np.ones((len(rows), max(1, len(base.filters))), np.bool_)
    for i, conditions in enumerate(base.filters):
        passes[:, i] = _passing(rows, conditions)
    columns = []
    for value in base.computed:
        needed = np.flatnonzero(base.needs(value, passes))
        codes = np.full(len(rows), NULL, np.int64)
        codes[needed] = _values(rows, needed, value, dictionaries)
        columns.append(codes)
    return _stacked(columns, len(rows)), passes


def _passing(rows: pa.Table, conditions: Sequence[Scalar]) -> Flags:
    """Return whether all conditions are true; a condition need not have a value for rows that fail another one."""
    tried = [c.combine_chunks() for c in evaluate(rows, [f"TRY(COALESCE({s.sql}, FALSE))" for s in conditions])]
    held = [c.fill_null(True).to_numpy(zero_copy_only=False) for c in tried]
    failed = [c.is_null().to_numpy(zero_copy_only=False) for c in tried]
    passes: Flags = np.logical_and.reduce(held)
    wrong = passes & np.logical_or.reduce(failed)
    if wrong.any():
        row = int(wrong.argmax())
        scalar = next(s for s, without in zip(conditions, failed, strict=True) if without[row])
        raise NoValueError(row, scalar, _objection(rows.slice(row, 1), scalar))
    return passes


def _values(rows: pa.Table, needed: Codes, value: Computed, dictionaries: Dictionaries) -> Codes:
    """Return the codes of a computed value for some rows."""
    some = rows.take(needed)
    try:
        return _computed(evaluate(some, [value.scalar.sql])[0], value, dictionaries)
    except CodeError as error:
        raise NoValueError(int(needed[error.row]), value.scalar, error.reason) from None
    except ScalarError:
        row, reason = _first_without(some, value.scalar)
        raise NoValueError(int(needed[row]), value.scalar, reason) from None


def _first_without(rows: pa.Table, scalar: Scalar) -> tuple[int, str]:
    """Find the first row without a value, and the reason, by bisection. There must be one. O(rows)."""
    start, many = 0, len(rows)
    while many > 1:
        half = many // 2
        if _objection(rows.slice(start, half), scalar):
            many = half
        else:
            start, many = start + half, many - half
    return start, _objection(rows.slice(start, 1), scalar)


def _objection(rows: pa.Table, scalar: Scalar) -> str:
    """Return DuckDB's error for an expression over rows; empty if it has a value for each."""
    try:
        evaluate(rows, [scalar.sql])
    except ScalarError as error:
        return str(error)
    return ""


def _held(values: pa.ChunkedArray) -> Flags:
    held: Flags = values.combine_chunks().fill_null(False).to_numpy(zero_copy_only=False)
    return held


def _computed(values: pa.ChunkedArray, computed: Computed, dictionaries: Dictionaries) -> Codes:
    kind = computed.scalar.type
    typed = values.cast(arrow_type(kind))
    if not computed.part:
        return encode(typed, kind, dictionaries)
    high, low = split(typed, kind)
    return high if computed.part == "high" else low


def _stacked(columns: Sequence[Codes], rows: int) -> Codes:
    stacked = np.zeros((rows, max(1, len(columns))), np.int64)
    for i, column in enumerate(columns):
        stacked[:, i] = column
    return stacked
