"""Short ways to look at the normal form of a SQL text, for tests."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, Query
from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.sql import compile_sql
from dynq_cli.spec.model import Semantics
from tests.query.meaning import make_query, make_spec

SPEC = make_spec()


def compiled(text: str, semantics: Semantics | None = None) -> Query:
    return compile_sql(text, SPEC, make_query(text, semantics))


def query(text: str, semantics: Semantics | None = None) -> ConjunctiveQuery:
    found = compiled(text, semantics)
    assert isinstance(found, ConjunctiveQuery)
    return found


def atom(text: str, alias: str) -> Atom:
    return next(a for a in query(text).atoms if a.alias == alias)


def filters(text: str, alias: str = "r") -> list[str]:
    return [f.sql for f in atom(text, alias).filters]


def monomials(text: str) -> list[tuple[Decimal | int, dict[str, str]]]:
    found = query(text)
    return [
        (m.coefficient, {found.atoms[f.atom].alias: f.scalar.sql for f in m.factors})
        for m in found.aggregates[0].monomials
    ]


def problems(text: str) -> tuple[TextProblem, ...]:
    with pytest.raises(QueryProblems) as raised:
        compiled(text)
    return raised.value.problems


def columns(text: str) -> dict[str, str]:
    return {c.name: f"{c.type}{'?' if c.nullable else ''}" for c in compiled(text).columns}
