"""A relation with `max_degree` → the hidden queries that count the rows of each value of a column.

    relation  link(a, b), max_degree: 8
    queries   degrees/link/a(a) :- link(a, b), degrees/link/b(b) :- link(a, b)      bags: as many copies as rows

Each is one view tree: O(1) per change, and a row per value.
"""

from __future__ import annotations

from collections.abc import Iterator

from dynq_cli.query.normal_form import Atom, Binding, ConjunctiveQuery, OutputColumn, Scalar, Variable
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Relation


def degree_queries(relation: Relation) -> Iterator[ConjunctiveQuery]:
    """One query for each column of a relation that has a `max_degree`; none for others."""
    if relation.max_degree is None:
        return
    scalars = [Scalar(quote(c.name), c.type, c.nullable, (c.name,)) for c in relation.columns]
    bindings = tuple(Binding(c.name, scalar) for c, scalar in zip(relation.columns, scalars, strict=True))
    variables = tuple(Variable(c.name, c.type, c.nullable) for c in relation.columns)
    for column in relation.columns:
        yield ConjunctiveQuery(
            name=relation.degree_query(column.name),
            atoms=(Atom(relation.name, relation.name, bindings),),
            comparisons=(),
            variables=variables,
            head=(column.name,),
            columns=(OutputColumn(column.name, column.type, column.nullable, "variable", column.name),),
            semantics="bag",
        )
