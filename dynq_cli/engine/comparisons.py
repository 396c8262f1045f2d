"""Evaluate comparisons between codes, which filter the rows of a result.

Codes of one type compare like their values, and an offset is a number of the type's units (`codes`). Otherwise (ids of
strings, binary and wide decimals; different types; an offset finer than the type) DuckDB compares the decoded values. A
comparison with NULL is never true.
"""

from __future__ import annotations

from decimal import localcontext

import numpy as np

from dynq_cli.engine.codes import NULL, Codes, needs_labels
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.kernels.fields import Flags
from dynq_cli.query.normal_form import Comparison, Variable
from dynq_cli.spec.types import Type

_LEAST, _MOST = -(2**63), 2**63 - 1


def holds(c: Comparison, left: Variable, right: Variable, mine: Codes, theirs: Codes, meaning: Evaluator) -> Flags:
    """Return for each row whether `left op right + offset` is true."""
    units = _units(c, left.type, right.type)
    if units is None:
        return meaning.holds(c, left.type, right.type, mine, theirs)
    known: Flags = (mine != NULL) & (theirs != NULL)
    if not units:
        return known & _compared(c.op, mine, theirs)
    # A sum beyond int64 is greater, or less, than every code.
    if units > 0:
        past = theirs > max(_MOST - units, _LEAST)
        return known & ((c.op in ("<", "<=", "!=")) & past | ~past & _compared(c.op, mine, _sum(theirs, units, past)))
    past = theirs < min(_LEAST - units, _MOST)
    return known & ((c.op == "!=") & past | ~past & _compared(c.op, mine, _sum(theirs, units, past)))


def _sum(codes: Codes, units: int, past: Flags) -> Codes:
    return np.where(past, 0, codes) + np.int64(max(min(units, _MOST), _LEAST))


def _compared(op: str, mine: Codes, theirs: Codes) -> Flags:
    if op == "<":
        return mine < theirs
    return mine <= theirs if op == "<=" else mine != theirs


def _units(c: Comparison, left: Type, right: Type) -> int | None:
    """Return the offset in units of the codes; None if the codes do not compare like the values."""
    if left != right and not (left.is_integer and right.is_integer):
        return None
    if needs_labels(left):
        return None if c.op != "!=" or c.offset else 0
    if not c.offset:
        return 0
    if left.is_float:
        return None
    # Offsets have up to 38 digits; the default context would round at 28.
    with localcontext(prec=100):
        scaled = c.offset.scaleb(left.scale)
        return int(scaled) if scaled == scaled.to_integral_value() else None
