"""Lower any query to steps that plain view trees and relations between them keep.

`passes.PASSES` is the order of the passes. A pass takes the query that is left and the program so far, and returns
both; where it does not apply, unchanged. Each has a module of its name, with an example. A query inside the query (a
derived table, a member of a union, a subquery, a join that feeds a relation) is lowered by the same tuple for a goal of
its own: `partial_program` names the goals, and `PartialProgram.lower` recurses.

passes                     the passes in their order
partial_program            the program in the making: an immutable value
query_builders             queries made from parts of others
conjunction                bodies of queries in one, with variables made equal
inequality_by_subtraction  != by subtraction: without it, less with =
ranges                     comparisons that a tree keeps on its edges
aggregate_partition        which atoms are summed up by themselves
distribute_products        monomials in columns instead of expressions
"""

from __future__ import annotations

from dynq_cli.plan.heavy_pairs import EPSILON
from dynq_cli.plan.lower.inclusion_exclusion import union_of_trees
from dynq_cli.plan.lower.partial_program import PartialProgram, Run
from dynq_cli.plan.lower.passes import PASSES
from dynq_cli.plan.program import Program
from dynq_cli.query.normal_form import Query, UnionQuery
from dynq_cli.spec.model import Spec

__all__ = ["PASSES", "program_of", "why_a_table"]


def program_of(query: Query, spec: Spec) -> Program:
    """The steps in which a query is kept; the last has its name."""
    left, program = _start(query, spec).lower(query, Run("result"))
    assert left is None, left
    return program.finished


def why_a_table(query: UnionQuery, spec: Spec) -> str:
    """Why the rows of a union are stored, in words; empty if they are not."""
    made = union_of_trees(query, _start(query, spec))
    return made if isinstance(made, str) else ""


def _start(query: Query, spec: Spec) -> PartialProgram:
    epsilon = EPSILON if query.epsilon is None else query.epsilon
    return PartialProgram(query.name, spec, query.max_view_rows, PASSES, epsilon=epsilon)
