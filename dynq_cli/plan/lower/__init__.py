"""Any query as steps that plain view trees and relations between them keep.

lowering     the steps in the making: a query settled into a free-connex equi-join, or streamed into a relation
views        derived tables
subqueries   EXISTS, IN and their negations
break_cycles        comparisons between atoms, and cycles
align_types     both sides of a comparison as one type
groups       GROUP BY and aggregates
push_down_aggregates  sums below many-to-many joins; aggregate_partition: which atoms are summed up by themselves
outputs      output columns as variables
unions       UNION and UNION ALL as a table
inclusion_exclusion     unions and != without a table: results that are read from several trees
inequality_by_subtraction   != by subtraction: without it, less with =
conjunction       bodies of queries in one, with variables made equal
query_builders        queries made from parts of others
"""

from __future__ import annotations

from dynq_cli.plan.lower.inclusion_exclusion import union_of_trees
from dynq_cli.plan.lower.lowering import Lowering
from dynq_cli.plan.program import Program
from dynq_cli.query.normal_form import Query, UnionQuery
from dynq_cli.spec.model import Spec

__all__ = ["program_of", "why_a_table"]


def program_of(query: Query, spec: Spec) -> Program:
    """The steps in which a query is kept; the last has its name."""
    return Lowering(query.name, spec, query.max_view_rows).program(query)


def why_a_table(query: UnionQuery, spec: Spec) -> str:
    """Why the rows of a union are stored, in words; empty if they are not."""
    made = union_of_trees(Lowering(query.name, spec, query.max_view_rows), query)
    return made if isinstance(made, str) else ""
