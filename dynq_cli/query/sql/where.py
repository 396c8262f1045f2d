"""A condition of WHERE or ON, conjunct by conjunct, into a body."""

from __future__ import annotations

from sqlglot import exp

from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.context import Ctes
from dynq_cli.query.sql.predicates import conjuncts
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import has_aggregate, has_query


def take_condition(body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> None:
    """Enter every conjunct; the problems of one do not hide those of the others."""
    context = body.context
    for conjunct in conjuncts(node):
        with context.gather():
            if has_query(conjunct):
                context.take_subquery(body, scope, conjunct, ctes)
                continue
            resolved = scope.resolve(conjunct)
            if has_aggregate(resolved):
                message = "an aggregate cannot stand in WHERE or ON, which are about single rows"
                raise context.refuse(conjunct, message, "use HAVING")
            for piece in body.pieces(resolved):
                body.take(piece)
