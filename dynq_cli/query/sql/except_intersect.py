"""EXCEPT and INTERSECT → joins and NOT EXISTS in which NULL equals NULL.

    L INTERSECT R        the rows of L that are joined with R on all columns
    L EXCEPT R           the rows of L without one in R

A side over one relation is an atom of it; any other is a view. With ALL, the copies of a row are numbered on both
sides, and the number is one more column: 3 copies EXCEPT ALL 2 leave the third, INTERSECT ALL the first two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynq_cli.query import scalar as sql
from dynq_cli.query.classes import unique_name
from dynq_cli.query.draft import Draft, Term
from dynq_cli.query.normal_form import (
    Atom,
    AtomMode,
    ConjunctiveQuery,
    OutputColumn,
    Query,
    View,
    Window,
    WindowFunction,
)
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.context import Context
from dynq_cli.query.sql.order import SortKey
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64


def compile_sides(
    context: Context,
    name: str,
    sides: Sequence[Query],
    columns: Sequence[OutputColumn],
    order: Sequence[SortKey],
    at: int,
    *,
    denied: bool,
    distinct: bool,
) -> ConjunctiveQuery:
    """The rows of the first side that all others have, or that none has (`denied`), under the names of `columns`."""
    draft = Draft(name, "set" if distinct else "bag")
    first: list[Term] = []
    for i, side in enumerate(sides):
        terms = _enter(context, draft, side, columns, "anti" if denied and i else "join", distinct=distinct)
        for left, right in zip(first, terms, strict=True) if i else ():
            draft.equal(left, right, at, null_safe=True)
        first = first or terms
    for column, term in zip(columns, first, strict=False):
        draft.output(column.name, term)
    draft.order += [(first[key.index], key.descending, key.nulls_first) for key in order]
    return normalise(draft)


def _enter(
    context: Context, draft: Draft, side: Query, columns: Sequence[OutputColumn], mode: AtomMode, *, distinct: bool
) -> list[Term]:
    """A term for each column of a side, in the types of the result, and one for the number of the copy."""
    atom = _only_atom(side) if distinct else None
    if atom is None:
        view = _view(context.view_name(draft.name, "side"), side, distinct=distinct)
        draft.views.append(view)
        at, scalars = draft.atom(_alias(draft, "side"), view.name, mode), [sql.column_scalar(c) for c in view.columns]
    else:
        at = draft.atom(_alias(draft, atom.alias), atom.source, mode)
        draft.atoms[at].filters += atom.filters
        bound = {b.variable: b.scalar for b in atom.bindings}
        scalars = [bound[c.source] for c in side.columns]
    kinds = [*(c.type for c in columns), *(s.type for s in scalars[len(columns) :])]
    names = [*(c.name for c in columns), "copy"]
    return [
        draft.term(at, sql.cast(scalar, kind), name) for scalar, kind, name in zip(scalars, kinds, names, strict=False)
    ]


def _only_atom(side: Query) -> Atom | None:
    """The atom whose rows, filtered, a side has; None if it is anything else."""
    if not isinstance(side, ConjunctiveQuery) or len(side.atoms) != 1 or side.grouped or side.views:
        return None
    return side.atoms[0] if all(c.kind == "variable" for c in side.columns) else None


def _view(name: str, side: Query, *, distinct: bool) -> View:
    """A side as a view; unless rows are distinct, with a column more that numbers the copies of each."""
    columns = tuple(Column(c.name, c.type, c.nullable) for c in side.columns)
    if distinct:
        return View(name, columns, replace(side, name=name))
    copy = unique_name("copy", {c.name.lower() for c in columns})
    number = WindowFunction(copy, '"_place"', INT64, False)
    window = Window(tuple(c.name for c in columns), (), functions=(number,))
    return View(name, (*columns, Column(copy, INT64)), replace(side, name=name), window=window)


def _alias(draft: Draft, wish: str) -> str:
    return unique_name(wish, {a.alias for a in draft.atoms})
