"""Feed a relation with the rows of a bag that has !=, as a sum over several trees: all rows, less those with =.

That is better than filtering where a side of a comparison is not asked for: no row of a tree stands for a pair of
values then. A comparison with both sides at hand filters rows.

    query    SELECT R.a FROM R, S WHERE R.b = S.b AND R.a <> S.c
    before   q(a) :- R(b, a), S(b, c), a != c
    steps    tree q/1(a) :- R(b, a), S(b, c)
             tree q/2(a) :- R(b, a), S(b, a)
             fed by +q/1, -q/2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynq_cli.plan.lower.inequality_by_subtraction import (
    MOST_UNEQUAL,
    Equated,
    differing,
    sets,
    with_equalities,
    without,
)
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import part_of
from dynq_cli.plan.lower.ranges import in_one_tree
from dynq_cli.plan.program import Feed
from dynq_cli.query.normal_form import ConjunctiveQuery


def feed_by_subtraction(
    query: ConjunctiveQuery, program: PartialProgram
) -> tuple[ConjunctiveQuery | None, PartialProgram]:
    found = subtracted(query, program, [c.name for c in program.run.inputs])
    if found is None:
        return query, program
    feeds, program = found
    return None, program.with_feeds(feeds)


def subtracted(
    query: ConjunctiveQuery, program: PartialProgram, columns: Sequence[str]
) -> tuple[list[Feed], PartialProgram] | None:
    """Trees that together feed the columns, with signs; None if that is no better than filtering."""
    hidden = tuple(c for c in differing(query) if not c.variables <= frozenset(query.head))
    shown = tuple(c for c in differing(query) if c not in hidden)
    if query.semantics != "bag" or not 1 <= len(hidden) <= MOST_UNEQUAL:
        return None
    open_ = without(part_of(query, query.atoms, query.head, query.comparisons), (*hidden, *shown))
    made: list[tuple[Equated, ConjunctiveQuery, int]] = []
    for some in ((), *sets(hidden)):
        equal = with_equalities(open_, some)
        fitting = None if equal is None else in_one_tree(equal.query, program.spec, may_grow=True)
        if equal is None or fitting is None:
            return None
        made.append((equal, fitting, -1 if len(some) % 2 else 1))
    feeds: list[Feed] = []
    for equal, fitting, sign in made:
        tree, program = program.add_tree(fitting)
        where = tuple(replace(c, left=equal.name(c.left), right=equal.name(c.right)) for c in shown)
        feeds.append(Feed(tree, tuple(map(equal.name, columns)), 1 if sign > 0 else -1, where))
    return feeds, program
