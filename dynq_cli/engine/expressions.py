"""What leaves compute from rows and filter them by: by DuckDB, a batch at a time, or as it is remembered.

Plain conditions do without DuckDB, whose every answer takes as long as a thousand rows in the engine: what codes tell,
and what texts are like (`predicates`).

Conditions of a filter are asked for one by one, so that each can be remembered, and values for all rows. Only where one
of them has no value for a row, what matters is asked again: a row that one condition of a filter keeps out needs no
other, and values are needed of rows that a filter lets pass.
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
    """An expression has no value for a row that needs it: `row` counts from 0."""

    def __init__(self, row: int, scalar: Scalar, reason: str) -> None:
        super().__init__(f"{scalar.sql} has no value: {reason}")
        self.row = row
        self.scalar = scalar


def computed_of(
    rows: Callable[[], pa.Table], codes: Codes, base: BaseLayout, dictionaries: Dictionaries
) -> tuple[Codes, Flags]:
    """What the leaves of a relation compute from its rows, and whether their filters hold. Raises NoValueError.

    `rows` gives the columns that expressions look at; it is asked only if something is not known of the codes.
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
    """The column that a condition is about."""
    (name,) = condition.columns
    column = rows[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _answers(rows: pa.Table, asked: Sequence[Asked], dictionaries: Dictionaries) -> dict[Asked, Codes]:
    """By DuckDB: of a value its codes, of a condition 1 or 0."""
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
    """As `computed_of`, with values only of rows that need them, and NULL for others, which nobody reads."""
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
    """Whether all conditions are true, where some may have no value for rows that others keep out."""
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
    """The codes of a value, of some rows."""
    some = rows.take(needed)
    try:
        return _computed(evaluate(some, [value.scalar.sql])[0], value, dictionaries)
    except CodeError as error:
        raise NoValueError(int(needed[error.row]), value.scalar, error.reason) from None
    except ScalarError:
        row, reason = _first_without(some, value.scalar)
        raise NoValueError(int(needed[row]), value.scalar, reason) from None


def _first_without(rows: pa.Table, scalar: Scalar) -> tuple[int, str]:
    """The first of the rows for which an expression has no value, and why; there is one. O(rows), by halves."""
    start, many = 0, len(rows)
    while many > 1:
        half = many // 2
        if _objection(rows.slice(start, half), scalar):
            many = half
        else:
            start, many = start + half, many - half
    return start, _objection(rows.slice(start, 1), scalar)


def _objection(rows: pa.Table, scalar: Scalar) -> str:
    """What DuckDB says against an expression over rows; empty if it has a value for each."""
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
