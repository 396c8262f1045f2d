"""Bind every output column to a variable of the type asked for, so that rows can fill a relation.

Derived tables and members of unions are asked for types. Groups and unions give them to the columns of their relations.

    query    SELECT d.e, S.c FROM (SELECT DISTINCT a, 1 AS e FROM R) AS d, S WHERE d.a = S.b
    before   q.d(a, e = 1) :- R(a)
    after    q.d(a, e) :- R(a, e)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import as_column, bind_value, is_wide, same_codes, where_bound
from dynq_cli.plan.program import high, low
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn, Query, Scalar, UnionQuery
from dynq_cli.spec.types import Type


def type_columns(query: Query, program: PartialProgram) -> tuple[Query, PartialProgram]:
    if isinstance(query, UnionQuery) or query.grouped:
        # Their relations get columns of these types.
        return query, program
    return exact(query, program.run.types), program


def exact(query: ConjunctiveQuery, types: Sequence[Type]) -> ConjunctiveQuery:
    """The query with columns of the types given, each a variable, or a pair if it is wide.

    Constants are bound in an atom that has a variable of the head, if there is one: it stays free-connex more often.
    """
    head: dict[str, None] = {}
    columns = []
    home = _home(query)
    for column, kind in zip(query.columns, types, strict=True):
        if column.kind == "variable" and not is_wide(kind) and same_codes(query.variable(column.source).type, kind):
            source = column.source
        elif column.kind == "variable":
            atom, binding = where_bound(query, column.source)
            query, source = bind_value(query, atom, column.name, as_column(binding.scalar, kind))
        elif column.kind == "pair" and kind == column.type:
            source = column.source
        else:
            text = Scalar(f"CAST({column.source} AS {kind.sql})", kind, column.nullable, ())
            query, source = bind_value(query, home, column.name, text)
        head |= dict.fromkeys((high(source), low(source)) if is_wide(kind) else (source,))
        columns.append(
            OutputColumn(column.name, kind, column.nullable, "pair" if is_wide(kind) else "variable", source)
        )
    return replace(query, head=tuple(head), columns=tuple(columns), order=())


def _home(query: ConjunctiveQuery) -> int:
    joins = [i for i, a in enumerate(query.atoms) if a.mode == "join"]
    return next((i for i in joins if query.atoms[i].variables & set(query.head)), joins[0])
