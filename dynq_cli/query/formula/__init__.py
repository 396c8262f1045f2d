"""The formula front end: `q(x) := R(x) and forall y: S(x, y) -> T(y)` → normal form.

    parse      text → `syntax`
    resolve    names, sorts, types; negations inside
    branches   alternatives, each a conjunction
    near_far   quantifiers over all values, counted less the near ones
    build      alternatives → joins, anti atoms, groups, unions
    understood what `explain` says of a formula
    as_sql     syntax → SQL, which `verify` recomputes with

First-order logic with counting quantifiers over the values in the database. The result is a set; NULL is no value.
"""

from __future__ import annotations

from dynq_cli.query.formula.as_sql import as_sql
from dynq_cli.query.formula.build import build
from dynq_cli.query.formula.parse import parse
from dynq_cli.query.formula.resolve import resolve
from dynq_cli.query.formula.understood import Understood, understood
from dynq_cli.query.normal_form import Query
from dynq_cli.query.problems import refuse
from dynq_cli.spec.model import QuerySpec, Spec


def compile_text(text: str, spec: Spec, query: QuerySpec) -> Query:
    """The normal form of one formula. Raises QueryProblems with everything found wrong in it."""
    if query.semantics == "bag":
        raise refuse(0, "the result of a formula is a set", "remove `semantics: bag`, or write the query in sql:")
    return build(resolve(parse(text), spec), spec, query.name)


def duckdb_text(text: str, spec: Spec) -> str | None:
    """The formula as SQL, written from its text alone."""
    return as_sql(parse(text), spec)


def explained(text: str, spec: Spec) -> Understood:
    """What `explain` says of a formula that compiles."""
    return understood(resolve(parse(text), spec), spec)
