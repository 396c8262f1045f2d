"""Decide which queries `keep: test` takes, and why it refuses the others.

A t-hierarchical query (thesis, Definition 3.4) is tested in O(1) under O(1) updates. A row fixes the values of the
head. Atoms that meet the head in the same variables Z share their other variables with no atom outside, so they form a
query Q_Z of their own, and

    row is in the result   ⟺   for every Z, its values of Z are in Q_Z

Each Q_Z is q-hierarchical: Z stands in all of its atoms.
"""

from __future__ import annotations

from dynq_cli.plan.plan import AnyPlan
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, OutputColumn, Query, UnionQuery
from dynq_cli.spec.types import Type

_HINT = "\n  hint: leave `keep` out, or write `keep: rows`"


def why_untestable(plan: AnyPlan) -> str:
    """Why `keep: test` refuses a plan's query, in words; empty if it does not."""
    why = _why_no_join(plan.query)
    if why:
        return f"`keep: test` is for joins of relations: {why}{_HINT}"
    if not plan.classification.t_hierarchical:
        return f"`keep: test` needs a t-hierarchical query: {plan.classification.not_t_hierarchical}{_HINT}"
    return ""


def members_of(query: Query) -> tuple[ConjunctiveQuery, ...]:
    """The conjunctive queries whose rows a query has, those of unions in unions, too."""
    if isinstance(query, UnionQuery):
        return tuple(each for member in query.members for each in members_of(member))
    return (query,)


def _why_no_join(query: Query) -> str:
    """What of a query no lookup answers, whatever its class; empty if nothing."""
    if isinstance(query, ConjunctiveQuery):
        if query.grouped:
            return "its rows are groups"
        if query.views:
            return "it has a subquery, whose rows would have to be stored"
        return next(filter(None, (_why_no_lookup(query, a) for a in query.atoms)), "")
    nested = [m for m in query.members if isinstance(m, UnionQuery)]
    if query.semantics == "bag" and any(m.semantics == "set" for m in nested):
        return "a UNION stands in a UNION ALL"
    for member in members_of(query):
        why = _why_no_join(member) or _why_converted(member, query)
        if why:
            return f"{member.name}: {why}"
    return ""


def _why_no_lookup(query: ConjunctiveQuery, atom: Atom) -> str:
    if atom.mode == "join":
        return ""
    if atom.null_aware is not None:
        return f"{atom.brief} depends on where NULLs are"
    hidden = sorted(atom.variables.difference(query.head))
    return f"{atom.brief} looks at {' and '.join(hidden)}, not selected" if hidden else ""


def _why_converted(member: ConjunctiveQuery, union: UnionQuery) -> str:
    """Which column of a union's member is no variable of the union's type, where a conversion has no place."""
    for column, wanted in zip(member.columns, union.columns, strict=True):
        if not _is_as_it_is(member, column, wanted.type):
            return f"column {column.name} is converted to {wanted.type}, the type of the union's"
    return ""


def _is_as_it_is(member: ConjunctiveQuery, column: OutputColumn, kind: Type) -> bool:
    if len(member.atoms) == 1:
        return True
    if column.kind != "variable" or (kind.name == "decimal" and kind.precision > 18):
        return False
    own = member.variable(column.source).type
    return own == kind or (own.is_integer and kind.is_integer) or (own.is_float and kind.is_float)
