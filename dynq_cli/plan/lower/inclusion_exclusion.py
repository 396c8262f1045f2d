"""Results that are read from several trees at once, so that no table holds their rows.

    UNION, UNION ALL    a tree per member, and one for each intersection of members, of which only the count is needed
    x != y              a tree without the comparison, whose rows are filtered, and one with x = y instead, whose count
                        is taken away; for several comparisons one for each set of them, with alternating signs

Each has to fit into one tree. A union whose intersections are expensive to keep is a table where that is no larger than
the base tables. Results that others are made from, and those in an order, are no such results: what feeds is a
difference, and an order needs a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dynq_cli.plan.lower.conjunction import conjunction
from dynq_cli.plan.lower.inequality_by_subtraction import (
    MOST_UNEQUAL,
    differing,
    sets,
    with_equalities,
    with_head,
    without,
)
from dynq_cli.plan.lower.outputs import exact
from dynq_cli.plan.lower.query_builders import is_wide
from dynq_cli.plan.lower.ranges import in_one_tree
from dynq_cli.plan.lower.unions import rows_of
from dynq_cli.plan.program import Member, Term, Together, variables_of
from dynq_cli.query.core import core
from dynq_cli.query.normal_form import ConjunctiveQuery, Query, UnionQuery

if TYPE_CHECKING:
    from dynq_cli.plan.lower.lowering import Lowering

# Trees double with each.
MOST_MEMBERS = 4


def together(lowering: Lowering, query: Query) -> Together | None:
    """The query as a result of several trees; None if it is none, with steps that are left over."""
    if isinstance(query, UnionQuery):
        made = union_of_trees(lowering, query)
        return made if isinstance(made, Together) else None
    return None if query.order else _unequal(lowering, query)


def union_of_trees(lowering: Lowering, query: UnionQuery) -> Together | str:
    """The union as a result of several trees; or why it is a table, in words, with steps that are left over."""
    if query.order:
        return "an order is kept of one table, not of several trees"
    if not query.columns:
        return "it has one row, or none"
    if not 2 <= len(query.members) <= MOST_MEMBERS:
        return f"its {len(query.members)} members have more intersections than are worth a tree each"
    members: list[ConjunctiveQuery] = []
    for i, each in enumerate(query.members):
        if isinstance(each, UnionQuery):
            return f"member {i + 1} is a union itself"
        if each.grouped:
            return f"member {i + 1} has groups"
        if not _is_plain(each):
            return f"rows of member {i + 1} are filtered by !="
        made = exact(each, [c.type for c in query.columns])
        fitting = lowering.fitting(replace(made, semantics="set") if query.semantics == "set" else made)
        if fitting is None:
            return f"member {i + 1} is not a join that one tree keeps"
        members.append(fitting)
    heads = [[v for c in m.columns for v in variables_of(c)] for m in members]
    terms: list[Term] = []
    for some in sets(range(len(members))):
        sign = 1 if len(some) % 2 else -1
        if len(some) == 1:
            terms.append(Term(lowering.tree(members[some[0]], is_read=True), 1, 1))
            continue
        both = core(conjunction(query.name, [members[i] for i in some], [heads[i] for i in some]))
        if in_one_tree(both, lowering.spec) is None:
            return f"no tree keeps the intersection of members {_listed(some)}"
        terms.append(Term(lowering.tree(both, is_read=True), sign if query.semantics == "set" else 0, sign))
    if all(_is_small(lowering, m) for m in members):
        for some, term in zip(sets(range(len(members))), terms, strict=True):
            if lowering.is_wide(term.tree):
                what = f"the intersection of members {_listed(some)}" if len(some) > 1 else f"member {some[0] + 1}"
                return f"a change can touch many rows of {what}, and the table is no larger than the base tables"
    pairs = [c.name for c in query.columns if is_wide(c.type)]
    read = tuple(Member(t.tree, tuple(h)) for t, h in zip(terms, heads, strict=False))
    return Together(query.name, rows_of(query, pairs), read, tuple(terms))


def _listed(members: Sequence[int]) -> str:
    *most, last = (str(i + 1) for i in members)
    return f"{', '.join(most)} and {last}"


def _is_small(lowering: Lowering, query: ConjunctiveQuery) -> bool:
    """Whether a query has no more distinct rows than a relation of the spec."""
    head = frozenset(query.head)
    return any(head <= a.variables and lowering.derived(a.source) is None for a in query.atoms)


def _is_plain(query: ConjunctiveQuery) -> bool:
    """Whether comparisons with != leave nothing to filter by."""
    return all(c.op != "!=" for c in query.comparisons)


def _unequal(lowering: Lowering, query: ConjunctiveQuery) -> Together | None:
    if query.grouped or not 1 <= len(differing(query)) <= MOST_UNEQUAL:
        return None
    plain = lowering.plain(query)
    where = differing(plain)
    if not where:
        # All of them are within subqueries.
        return None
    if not frozenset().union(*(c.variables for c in where)) <= frozenset(plain.head):
        return None
    terms: list[Term] = []
    open_ = without(plain, where)
    for some in ((), *sets(where)):
        made = with_equalities(open_, some)
        if made is None:
            return None
        # What is equal is in the head, computed or not: there is one value of it for each row.
        counted = with_head(made.query, (*made.query.head, *made.said.values()))
        if in_one_tree(counted, lowering.spec) is None:
            return None
        sign = -1 if len(some) % 2 else 1
        terms.append(Term(lowering.tree(counted, is_read=True), sign, sign))
    return Together(query.name, open_, (Member(terms[0].tree, open_.head),), tuple(terms), where)
