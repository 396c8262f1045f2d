"""Every output column of a query as a variable of its own type, so that its rows can fill a relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynq_cli.plan.lower.query_builders import as_column, bind_value, is_wide, same_codes, where_bound
from dynq_cli.plan.program import high, low
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn, Scalar
from dynq_cli.spec.types import Type


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
