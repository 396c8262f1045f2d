"""Plans of single queries over a few small relations."""

from __future__ import annotations

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.plan import AnyPlan
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec

RELATIONS = """
version: 1
relations:
  A: {columns: {a: int64}}
  B: {columns: {b: int64}}
  K: {columns: {x: int64, y: int64}, key: [x]}
  N: {columns: {n: int64?}}
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}}
  T: {columns: {z: int64, x: int64}}
queries:
"""


def planned(query: str, relations: str = RELATIONS) -> AnyPlan:
    """The plan of a query: a rule if it has `:-`, else SQL."""
    language = "rule" if ":-" in query else "sql"
    spec = parse_spec(f"{relations}  q:\n    {language}: |\n      {query}\n", "spec.yaml")
    return plan_query(compile_spec(spec)["q"], spec)
