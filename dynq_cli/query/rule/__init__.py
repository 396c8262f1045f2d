"""The rule front end: `chain(x, z) :- R(x, y), S(y, z), x < z` → Draft.

    grammar    text → parse tree, with `mistakes` for what cannot be parsed
    parse      parse tree → `syntax`; what can be understood but not be meant is reported on the way
    linear     a comparison → `x op constant` or `x op y + offset`, by `constants` and `intervals`
    atoms      the body's atoms → terms of the draft, and the type of every variable
    head       the head → output columns, groups and aggregates
    compile    all of it, for one rule

Every error is a `QueryProblems` with all that is wrong with the text.
"""

from __future__ import annotations

from dynq_cli.query.normal_form import Query
from dynq_cli.query.normalise import normalise
from dynq_cli.query.rule.compile import compile_rule
from dynq_cli.spec.model import QuerySpec, Spec

__all__ = ["compile_rule", "compile_text", "duckdb_text"]


def compile_text(text: str, spec: Spec, query: QuerySpec) -> Query:
    """The normal form of one rule. Raises QueryProblems with everything found wrong in it."""
    return normalise(compile_rule(text, spec, query))


def duckdb_text(_: str, __: Spec) -> str | None:
    """None: DuckDB knows no rules."""
    return None
