"""What leaves compute from rows and filter them by: by DuckDB, a batch at a time, or as it is remembered.

Plain conditions do without DuckDB, whose every answer takes as long as a thousand rows in the engine: what codes tell
(`by_codes`), and what texts are like (`like`).

Conditions of a filter are asked for one by one, so that each can be remembered. Where one of them has no value for a
row that another keeps out, the filter is asked for as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from dynq_cli.engine.base_layout import Asked, BaseLayout, Computed
from dynq_cli.engine.codes import Codes, encode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.kernels.fields import Flags
from dynq_cli.engine.lossless import arrow_type
from dynq_cli.engine.pairs import split
from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.scalar import ScalarError, conditions_hold, evaluate


def computed_of(
    rows: Callable[[], pa.Table], codes: Codes, base: BaseLayout, dictionaries: Dictionaries
) -> tuple[Codes, Flags]:
    """What the leaves of a relation compute from its rows, and whether their filters hold. Raises ScalarError.

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
        except ScalarError:
            return _as_a_whole(table, base, dictionaries)
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
    return rows[name].combine_chunks()


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


def _as_a_whole(rows: pa.Table, base: BaseLayout, dictionaries: Dictionaries) -> tuple[Codes, Flags]:
    """All in one question, each filter's conditions joined."""
    conditions = [" AND ".join(f"({s.sql})" for s in several) for several in base.filters]
    scalars = list(dict.fromkeys(c.scalar for c in base.computed))
    values = evaluate(rows, [*(s.sql for s in scalars), *conditions])
    of = dict(zip(scalars, values, strict=False))
    passes = np.ones((len(rows), max(1, len(conditions))), np.bool_)
    for i, column in enumerate(values[len(scalars) :]):
        passes[:, i] = _held(column)
    return _stacked([_computed(of[c.scalar], c, dictionaries) for c in base.computed], len(rows)), passes


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
