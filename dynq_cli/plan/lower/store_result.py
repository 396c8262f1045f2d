"""Store the result of a join that is not free-connex, or has comparisons left: one atom over a relation of its head.

So is what a condition over several tables leaves of joined rows, or what is computed from these.

query    q(a, c) :- R(a, b), S(b, c)
before   q(a, c) :- R(a, b), S(b, c)
after    q(a, c) :- q/2(a, c)
steps    tree q/1(a, b, c) :- R(a, b), S(b, c)
         relation q/2(a, c): rows of +q/1

    query    q(a, c) :- R(a, b), S(b, c)
    before   q(a, c) :- R(a, b), S(b, c)
    after    q(a, c) :- q/2(a, c)
    steps    tree q/1(a, b, c) :- R(a, b), S(b, c)
             relation q/2(a, c): rows of +q/1
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import atom_over, columns_of, with_one
from dynq_cli.plan.program import high, low
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column


def store_result(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    return stored(query, program) if not program.fits(query) or _is_filtered(query, program) else (query, program)


def _is_filtered(query: ConjunctiveQuery, program: PartialProgram) -> bool:
    """Whether the result is part of joined rows, which then need not be stored as well, or computed from them."""
    step = program.derived(query.atoms[0].source) if len(query.atoms) == 1 else None
    if step is None or step.groups is not None or step.partitions is not None:
        return False
    if program.run.goal == "typed" and query.semantics == "bag":
        return False
    (atom,) = query.atoms
    return bool(atom.filters) or any(b.scalar.sql not in map(quote, b.scalar.columns) for b in atom.bindings)


def stored(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    """The query as one atom over a relation of its head."""
    held, head = query, query.head
    if not head:
        held, one = with_one(query)
        head = (one,)
    inner = replace(held, head=head)
    feeds, program = program.feeds(inner)
    columns, pairs = _with_pairs(inner)
    table, program = program.add_relation(columns, feeds, pairs=pairs)
    variables = tuple(v for v in held.variables if v.name in head)
    return replace(query, atoms=(atom_over(table),), comparisons=(), variables=variables), program


def _with_pairs(query: ConjunctiveQuery) -> tuple[list[Column], set[str]]:
    """The head as columns, of which those of two parts are one, since expressions may look at the whole."""
    wide = {c.source: c.type for c in query.columns if c.kind == "pair"}
    parts = {(high(name), low(name)): name for name in wide}
    columns, pairs = list(columns_of(query)), set()
    for i in range(len(columns) - 2, -1, -1):
        name = parts.get((columns[i].name, columns[i + 1].name))
        if name is not None:
            columns[i : i + 2] = [Column(name, wide[name], columns[i].nullable)]
            pairs.add(name)
    return columns, pairs
