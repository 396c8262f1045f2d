"""Calls of aggregates in a parsed text. sqlglot has classes for some; the registry knows which are in the language."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dynq_cli.query.aggregates import find
from dynq_cli.query.aggregates.definition import Additive, Definition


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is the call of an aggregate, in the language or not."""
    return isinstance(node, exp.AggFunc) or definition_of(node) is not None


def definition_of(node: exp.Expr) -> Definition | None:
    """The aggregate that a node calls; None if it calls none of the language."""
    if isinstance(node, exp.Anonymous):
        return find(str(node.this))
    if isinstance(node, exp.Func):
        return next((d for d in map(find, type(node).sql_names()) if d is not None), None)
    return None


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call, in order."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    given = [node.args.get(key) for key in node.arg_types]
    return [a for each in given for a in (each if isinstance(each, list) else [each]) if isinstance(a, exp.Expr)]


def may_differ(tree: exp.Expr) -> bool:
    """Whether a text calls an aggregate whose digits DuckDB may lose, or of which it takes another value as good."""
    if tree.find(exp.GroupConcat) is not None:
        return True
    found = (d for d in _definitions(tree) if d is not None)
    return any(d.cancels if isinstance(d, Additive) else d.is_choice for d in found)


def _definitions(tree: exp.Expr) -> Iterator[Definition | None]:
    return (definition_of(node) for node in tree.find_all(exp.Anonymous, exp.AggFunc))


def has_own_aggregate(tree: exp.Expr) -> bool:
    """Whether a text calls an aggregate that DuckDB does not have, as COUNT(DISTINCT a, b)."""
    found = _definitions(tree)
    several = any(len(d.expressions) > 1 for d in tree.find_all(exp.Distinct) if isinstance(d.parent, exp.AggFunc))
    return several or any(d is not None and not d.is_duckdbs for d in found)
