"""The aggregates that queries may use.

To add one, write a module with `DEFINITIONS` and name it in `_MODULES`; from outside, call `register`. An `Additive`
aggregate needs nothing else. A `Basic` one is a reading of a group's state that the engine has to know.
"""

from __future__ import annotations

from dynq_cli.query.aggregates import (
    bits,
    conditions,
    counts,
    extremes,
    ordered,
    products,
    recomputed,
    regression,
    sums,
    variance,
)
from dynq_cli.query.aggregates.definition import Additive, Basic, Definition

_MODULES = (counts, sums, extremes, ordered, conditions, bits, products, variance, regression, recomputed)

_BY_NAME: dict[str, Definition] = {}


def register(definition: Definition) -> None:
    """Make an aggregate known to SQL and rules, under its name and synonyms. A name is given once."""
    names = (definition.name, *definition.synonyms)
    for name in names:
        if name in _BY_NAME:
            raise ValueError(f"there is an aggregate {name} already")
    _BY_NAME.update(dict.fromkeys(names, definition))


def find(name: str) -> Definition | None:
    """The aggregate that a query calls by a name, in any case; None if there is none."""
    found = _BY_NAME.get(name.lower())
    is_written = isinstance(found, Additive) or (found is not None and (found.is_written or name.lower() != found.name))
    return found if is_written else None


def basic(name: str) -> Basic:
    """The aggregate that a normal form names."""
    found = _BY_NAME[name]
    assert isinstance(found, Basic), name
    return found


def written_names() -> tuple[str, ...]:
    """The names that queries may use, without synonyms, in the order of their definitions."""
    return tuple(name for name in _all() if find(name) is not None)


def names_shown() -> str:
    """The aggregates as a hint lists them: those that are used most, and where the others are.

    >>> names_shown()[:29]
    'count, sum, avg, min, max and'
    """
    most = ("count", "sum", "avg", "min", "max")
    return f"{', '.join(most)} and {len(written_names()) - len(most)} more in docs/spec.md"


def _all() -> dict[str, Definition]:
    return {name: found for name, found in _BY_NAME.items() if found.name == name}


for _module in _MODULES:
    for _definition in _module.DEFINITIONS:
        register(_definition)
