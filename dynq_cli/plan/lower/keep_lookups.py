"""Keep a result for tests alone: trees whose lookups, taken together, say whether a row is in it.

The atoms that meet the head in the same variables form one tree, whose head these are (`plan.testing`). Comparisons of
head variables are decided by the row. EXISTS and NOT EXISTS on head variables are lookups, too. A union tests its
members, one after another.

    query    SELECT DISTINCT R.a, S.b FROM R, S WHERE R.b = S.b
    keep     test
    before   q(a, b) :- R(b, a), S(b)
    steps    tree q/1(b, a) :- R(b, a)
             tree q/2(b) :- S(b)
             result q: tested in q/1 and q/2
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import is_wide, part_of
from dynq_cli.plan.lower.store_union import rows_of
from dynq_cli.plan.lower.type_columns import exact
from dynq_cli.plan.program import Alternative, Lookups, TreeLookup, variables_of
from dynq_cli.plan.testing import members_of, why_untestable
from dynq_cli.query.core import core
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, Query, UnionQuery


def keep_lookups(query: Query, program: PartialProgram) -> tuple[Query | None, PartialProgram]:
    if query.keep != "test" or why_untestable(plan_query(query, program.spec)):
        return query, program
    alternatives = []
    for member in members_of(query):
        made, head = _typed(member, query)
        alternative, program = _alternative(made, head, program)
        alternatives.append(alternative)
    return None, program.add_result(Lookups(query.name, _form(query), tuple(alternatives)))


def _form(query: Query) -> ConjunctiveQuery:
    if isinstance(query, UnionQuery):
        return rows_of(query, [c.name for c in query.columns if is_wide(c.type)])
    return query


def _typed(member: ConjunctiveQuery, whole: Query) -> tuple[ConjunctiveQuery, tuple[str, ...]]:
    """A member with columns of the result's types, and its variables that stand for those of the result's head."""
    if not isinstance(whole, UnionQuery):
        return core(member), member.head
    semantics = "set" if whole.semantics == "set" else member.semantics
    made = exact(replace(member, semantics=semantics), [c.type for c in whole.columns])
    return core(made), tuple(v for c in made.columns for v in variables_of(c))


def _alternative(
    query: ConjunctiveQuery, head: tuple[str, ...], program: PartialProgram
) -> tuple[Alternative, PartialProgram]:
    lookups = []
    groups: dict[frozenset[str], list[Atom]] = {}
    for atom in query.atoms:
        if atom.mode == "join":
            groups.setdefault(atom.variables & frozenset(query.head), []).append(atom)
    for shared, atoms in groups.items():
        tree, program = program.add_tree(part_of(query, atoms, shared))
        lookups.append(TreeLookup(tree, "copies"))
    for atom in query.atoms:
        if atom.mode != "join":
            tree, program = program.add_tree(part_of(query, [atom], atom.variables, semantics="set"))
            lookups.append(TreeLookup(tree, "present" if atom.mode == "semi" else "absent"))
    return Alternative(head, tuple(lookups), query.comparisons), program
