"""A query language from outside the package: the name of a relation is the query of all its rows."""

from __future__ import annotations

from dynq_cli.query.draft import Draft
from dynq_cli.query.normal_form import Query
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import refuse
from dynq_cli.query.scalar import column_scalar, quote
from dynq_cli.spec.model import QuerySpec, Spec


def compile_text(text: str, spec: Spec, query: QuerySpec) -> Query:
    name = text.strip()
    relation = spec.relation(name)
    if relation is None:
        raise refuse(text.index(name), f"there is no relation {name}", "name a relation of the spec")
    draft = Draft(query.name, query.semantics or "bag")
    atom = draft.atom(name, name)
    for column in relation.columns:
        draft.output(column.name, draft.term(atom, column_scalar(column), column.name))
    return normalise(draft)


def duckdb_text(text: str, _: Spec) -> str | None:
    return f"SELECT * FROM {quote(text.strip())}"
