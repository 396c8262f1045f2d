"""Feed the rows of a join into a relation, from one tree; comparisons that no edge has filter them.

A cyclic join is not kept in a tree: its delta is joined (`delta_join`), and comparisons filter it. Its head is what is
taken in or compared. For groups, that leaves out variables of a set that no aggregate looks at: copies count bindings.

query    SELECT a, c FROM R, S WHERE R.b = S.b AND a <> c
before   q(a, c) :- R(b, a), S(b, c), a != c
steps    tree q/1(b, a, c) :- R(b, a), S(b, c)
         fed by +q/1 where a != c

    query    SELECT a, c FROM R, S WHERE R.b = S.b AND a <> c
    before   q(a, c) :- R(b, a), S(b, c), a != c
    steps    tree q/1(b, a, c) :- R(b, a), S(b, c)
             fed by +q/1 where a != c
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram, Run
from dynq_cli.plan.lower.query_builders import ONE, shown
from dynq_cli.plan.lower.ranges import partly
from dynq_cli.plan.program import Feed
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery, Scalar
from dynq_cli.query.reduction import is_acyclic
from dynq_cli.spec.model import Column


def feed_rows(query: ConjunctiveQuery, program: PartialProgram) -> tuple[None, PartialProgram]:
    if not is_acyclic(replace(hypergraph_of(query), comparisons=())):
        return None, _cycle(query, program)
    left: tuple[Comparison, ...] = ()
    if query is not program.run.fitting:
        query, left = partly(query, program.spec)
    tree, program = program.add_tree(query)
    return None, program.with_feeds([Feed(tree, tuple(c.name for c in program.run.inputs), 1, left)])


def _cycle(query: ConjunctiveQuery, program: PartialProgram) -> PartialProgram:
    run = program.run
    inputs = _looked_at(run) if run.goal == "groups" else run.inputs
    columns = tuple(c.name for c in inputs)
    compared = [v.name for v in query.variables if any(v.name in c.variables for c in query.comparisons)]
    joined = shown(replace(query, comparisons=()), (*columns, *compared))
    # A variable that is always 1 tells no rows apart: it stays in the head, and no atom binds it.
    atoms = tuple(replace(a, bindings=tuple(b for b in a.bindings if not _is_one(b.scalar))) for a in joined.atoms)
    cycle, program = program.add_cycle(replace(joined, atoms=atoms))
    program = replace(program, run=replace(run, inputs=inputs))
    return program.with_feeds([Feed(cycle, columns, 1, query.comparisons)])


def _is_one(scalar: Scalar) -> bool:
    """Whether a scalar is the number 1, whatever width it has been given."""
    return scalar.type.is_integer and scalar.sql in (ONE.sql, f"CAST({ONE.sql} AS {scalar.type.sql})")


def _looked_at(run: Run) -> tuple[Column, ...]:
    """The columns that groups are told apart by, or that an aggregate looks at."""
    names = {*run.keys}
    for m in run.measures:
        names |= {*m.values, *m.counted, *(name for several in m.factors for name in several)}
    return tuple(c for c in run.inputs if names & {c.name, c.name.removesuffix(".high"), c.name.removesuffix(".low")})
