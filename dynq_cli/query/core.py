"""The homomorphic core of a set query.

Under set semantics an atom that another atom already implies says nothing: if the query maps into
itself without atom A (variables to variables, head variables to themselves, atoms to atoms of the
same source whose filters include theirs, comparisons to implied ones), dropping A gives an
equivalent query. Doing so until no atom can go gives the core, which is unique up to renaming;
its class is the query's class. Queries with aggregates count bindings and are left alone.

Exponential in the number of atoms of one relation in the query, up to a limit: past it an atom that could go
may stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal

from dynq_cli.query.comparisons import Closure, Edge, step_between
from dynq_cli.query.normal_form import Atom, Comparison, ConjunctiveQuery, Scalar

# Only plain columns: of other texts the equality need not be the outermost operation.
_COLUMNS_EQUAL = re.compile(r'("(?:[^"]|"")+") = ("(?:[^"]|"")+")')

# Steps of one search for a homomorphism; past them the atom stays, which costs time and changes no result.
MOST_STEPS = 5000


def core(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """An equivalent query with as few atoms as possible."""
    if query.semantics != "set" or query.grouped:
        return query
    current = query
    while True:
        redundant = next((i for i, _ in enumerate(current.atoms) if _maps_without(current, i)), None)
        if redundant is None:
            return current
        gone = current.atoms[redundant]
        current = _without(current, redundant, f"{gone} is implied by the other atoms: removed")


def _without(query: ConjunctiveQuery, index: int, note: str) -> ConjunctiveQuery:
    atoms = tuple(a for i, a in enumerate(query.atoms) if i != index)
    left = frozenset().union(*(a.variables for a in atoms))
    return replace(
        query,
        atoms=atoms,
        comparisons=tuple(c for c in query.comparisons if c.variables <= left),
        variables=tuple(v for v in query.variables if v.name in left),
        simplifications=(*query.simplifications, note),
    )


@dataclass(frozen=True)
class _Target:
    """The query without one atom: what the whole query must map into."""

    query: ConjunctiveQuery
    atoms: tuple[Atom, ...]
    closure: Closure
    budget: list[None]


def _maps_without(query: ConjunctiveQuery, index: int) -> bool:
    if query.atoms[index].mode != "join":
        return False
    atoms = tuple(a for i, a in enumerate(query.atoms) if i != index and a.mode == "join")
    left = frozenset().union(*(a.variables for a in atoms))
    fixed = _fixed(query)
    if not atoms or not fixed & query.atoms[index].variables <= left:
        return False
    kept = [c for c in query.comparisons if c.variables <= left and c.op != "!="]
    closure = Closure((Edge(c.left, c.op, c.right, c.offset), _step(query, c)) for c in kept)
    target = _Target(query, atoms, closure, [None] * MOST_STEPS)
    # The dropped atom first: most often it is the one that has nowhere to go.
    order = [query.atoms[index], *atoms]
    mapping = {v: v for v in fixed}
    known = [c for c in query.comparisons if c.variables <= mapping.keys()]
    return all(_implied(target, c, mapping) for c in known) and _extend(target, order, mapping)


def _fixed(query: ConjunctiveQuery) -> frozenset[str]:
    """Head variables, and all that a semi or anti atom looks at: a test maps to nothing but itself."""
    tested = frozenset().union(*(a.variables for a in query.atoms if a.mode != "join"))
    compared = frozenset().union(*(c.variables for c in query.comparisons if c.variables & tested))
    return frozenset(query.head) | tested | compared


def _step(query: ConjunctiveQuery, c: Comparison) -> Decimal | None:
    return step_between(query.variable(c.left).type, query.variable(c.right).type)


def _extend(target: _Target, atoms: list[Atom], mapping: dict[str, str]) -> bool:
    """Backtracking search for a homomorphism that extends `mapping` to the atoms left."""
    if not atoms:
        return True
    atom, rest = atoms[0], atoms[1:]
    for image in target.atoms:
        if not target.budget:
            return False
        target.budget.pop()
        extended = _onto(atom, image, mapping)
        if extended is None:
            continue
        new = [c for c in target.query.comparisons if c.variables & (extended.keys() - mapping.keys())]
        settled = all(_implied(target, c, extended) for c in new if c.variables <= extended.keys())
        if settled and _extend(target, rest, extended):
            return True
    return False


def _onto(atom: Atom, image: Atom, mapping: dict[str, str]) -> dict[str, str] | None:
    """`mapping` extended so that `atom` becomes `image`, or None."""
    if (atom.source, atom.mode, atom.null_aware) != (image.source, image.mode, image.null_aware):
        return None
    if not all(f in image.filters or _equal_anyway(f, image) for f in atom.filters):
        return None
    by_scalar = {b.scalar.sql: b.variable for b in image.bindings}
    # R(x, x) binds its first column and has the second as the filter "a" = "b".
    filters = {f.sql for f in image.filters}
    for b in atom.bindings:
        equal = next((i.variable for i in image.bindings if f"{i.scalar.sql} = {b.scalar.sql}" in filters), None)
        if equal is not None:
            by_scalar.setdefault(b.scalar.sql, equal)
    extended = dict(mapping)
    for b in atom.bindings:
        # A scalar the image does not bind could be any value: stand-in variables differ from all others.
        value = by_scalar.get(b.scalar.sql, f"{image.alias}.{b.scalar.sql}")
        if extended.setdefault(b.variable, value) != value:
            return None
    return extended


def _equal_anyway(wanted: Scalar, image: Atom) -> bool:
    """Whether a filter `column = column` follows from the image's equalities of columns."""
    pair = _COLUMNS_EQUAL.fullmatch(wanted.sql)
    if pair is None:
        return False
    reached = {pair[1]}
    known = [m for m in (_COLUMNS_EQUAL.fullmatch(f.sql) for f in image.filters) if m is not None]
    for _ in known:
        for m in known:
            if reached & {m[1], m[2]}:
                reached |= {m[1], m[2]}
    return pair[2] in reached


def _implied(target: _Target, c: Comparison, mapping: dict[str, str]) -> bool:
    left, right = mapping[c.left], mapping[c.right]
    mapped = replace(c, left=left, right=right)
    kept = frozenset().union(*(a.variables for a in target.atoms))
    if mapped == c and c.variables <= _fixed(target.query):
        return True
    if mapped in target.query.comparisons and {left, right} <= kept:
        return True
    if c.op == "!=":
        return target.closure.implies_different(left, right, c.offset)
    if left == right:
        return c.offset > 0 or (c.op == "<=" and c.offset == 0)
    return target.closure.implies(Edge(left, c.op, right, c.offset), _step(target.query, c))
