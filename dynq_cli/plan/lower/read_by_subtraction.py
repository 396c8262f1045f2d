"""Read a result with != and NOT EXISTS from several trees, stored nowhere.

    rows     those of a tree without these conditions, filtered while they are read
    count    that of this tree, less that of a tree with the opposite of a condition; one tree for each set of
             conditions, with alternating signs

The opposite of != is =, and that of NOT EXISTS a join, which says no more of a set. Each has to fit into one tree, and
the head has to have what the conditions look at. A NOT EXISTS whose values one atom has is left to
`decorrelate_subqueries`: a relation of these values is no larger than the base tables, and no row is filtered out. A
result in an order is not one of these: an order needs a table. With `keep: rows` there are no
trees that only count.

    query    q(a, b, c) :- R(a, b), S(b, c), a != c
    before   q(a, b, c) :- R(a, b), S(b, c), a != c
    steps    tree q/1(a, b, c) :- R(a, b), S(b, c)
             tree q/2(a, b) :- R(a, b), S(b, a)
             result q: rows of q/1 where a != c, count + |q/1| - |q/2|
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.break_cycles import breaking_of, joined
from dynq_cli.plan.lower.inequality_by_subtraction import (
    MOST_UNEQUAL,
    differing,
    sets,
    with_equalities,
    with_head,
    without,
)
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.push_down_filters import filtered_within
from dynq_cli.plan.lower.query_builders import is_wide, part_of
from dynq_cli.plan.lower.ranges import in_one_tree
from dynq_cli.plan.program import Member, Term, Together
from dynq_cli.query.core import core
from dynq_cli.query.normal_form import Atom, Comparison, ConjunctiveQuery, Query, UnionQuery

# Without a count, a condition takes one tree, not one per set of conditions.
MOST_FILTERS = 64


def read_by_subtraction(query: Query, program: PartialProgram) -> tuple[Query | None, PartialProgram]:
    if isinstance(query, UnionQuery) or query.order or query.grouped:
        return query, program
    made = _subtracted(query, program)
    return (query, program) if made is None else (None, made)


def _subtracted(query: ConjunctiveQuery, program: PartialProgram) -> PartialProgram | None:
    denied = _denied(query)
    most = MOST_FILTERS if query.keep == "rows" else MOST_UNEQUAL
    if not 1 <= len(differing(query)) + len(denied) <= most:
        return None
    left = replace(query, atoms=tuple(a for a in query.atoms if a not in denied))
    plain, program = program.joins(_with_own_views(left))
    where = differing(plain)
    if not where and not denied:
        # All of them are within subqueries.
        return None
    if not frozenset().union(*(c.variables for c in where), *(a.variables for a in denied)) <= frozenset(plain.head):
        return None
    opposites: dict[Atom, tuple[Atom, ...]] = {}
    for atom in denied:
        alone = part_of(query, [atom], atom.variables, semantics="set")
        inner, program = program.joins(_with_own_views(replace(alone, views=query.views)))
        opposites[atom] = inner.atoms
    terms: list[Term] = []
    lacking: list[Member] = []
    open_ = without(plain, where)
    conditions: tuple[Comparison | Atom, ...] = (*where, *denied)
    tried = ((), *((a,) for a in denied)) if query.keep == "rows" else ((), *sets(conditions))
    for some in tried:
        made = with_equalities(_joined(open_, some, opposites), [c for c in some if isinstance(c, Comparison)])
        if made is None:
            return None
        # What is equal is in the head, computed or not: there is one value of it for each row.
        counted = with_head(made.query, (*made.query.head, *made.said.values()))
        if denied and some:
            counted = core(counted)
        # What is joined may have both sides of a comparison.
        counted = filtered_within(counted)
        if some and in_one_tree(counted, program.spec) is None:
            counted, program = _joined_by_delta(counted, program)
        if in_one_tree(counted, program.spec) is None:
            return None
        sign = -1 if len(some) % 2 else 1
        looked_up = len(some) == 1 and isinstance(some[0], Atom)
        tree, program = program.add_tree(counted, is_read=not some or looked_up)
        terms.append(Term(tree, sign, sign))
        if looked_up:
            lacking.append(Member(tree, open_.head))
    read = (Member(terms[0].tree, open_.head),)
    kept = () if query.keep == "rows" else tuple(terms)
    return program.add_result(Together(query.name, open_, read, kept, where, tuple(lacking)))


def _denied(query: ConjunctiveQuery) -> tuple[Atom, ...]:
    """The NOT EXISTS of a set whose values no atom has by itself: a relation of them would be as large as a product."""
    if query.semantics != "set":
        return ()
    joins = [a.variables for a in query.atoms if a.mode == "join"]
    compared = frozenset().union(*(c.variables for c in query.comparisons))
    found = []
    for atom in (a for a in query.atoms if a.mode == "anti" and a.null_aware is None and a.variables):
        is_linked = atom.variables <= frozenset().union(*joins) and not any(atom.variables <= j for j in joins)
        is_narrow = not any(is_wide(query.variable(v).type) for v in atom.variables)
        if is_linked and is_narrow and not (compared & atom.variables - frozenset().union(*joins)):
            found.append(atom)
    return tuple(found)


def _joined_by_delta(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    """The query with a relation in place of each cyclic part: rows that only denials tie to a cycle are few."""
    breaking = breaking_of(query, program.spec)
    if not breaking.by_delta or query.comparisons:
        return query, program
    for aliases in [{query.atoms[i].alias for i in group} for group in breaking.groups]:
        group = tuple(i for i, atom in enumerate(query.atoms) if atom.alias in aliases)
        query, program = joined(query, program, group)
    return query, program


def _with_own_views(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """The query with those views only that its atoms are over."""
    sources = {a.source for a in query.atoms}
    return replace(query, views=tuple(v for v in query.views if v.name in sources))


def _joined(
    query: ConjunctiveQuery, some: tuple[Comparison | Atom, ...], opposites: dict[Atom, tuple[Atom, ...]]
) -> ConjunctiveQuery:
    """The query with joins in place of what is denied."""
    atoms = [a for c in some if isinstance(c, Atom) for a in opposites[c]]
    return replace(query, atoms=(*query.atoms, *atoms))
