"""UNION and UNION ALL of SELECTs."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dynq_cli.query.normal_form import OutputColumn, Query, UnionQuery, VariableOrder
from dynq_cli.query.sql.context import Context, Ctes, many
from dynq_cli.query.sql.order import order_keys
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.select import compile_select
from dynq_cli.query.sql.shape import is_aggregating, unwrapped
from dynq_cli.query.sql.sources import with_ctes
from dynq_cli.spec.model import Semantics
from dynq_cli.spec.types import widen


def compile_any(
    context: Context, node: exp.Expr, name: str, ctes: Ctes, asked: Semantics | None, around: Scope | None = None
) -> Query:
    """A SELECT, or a union of queries."""
    while isinstance(node, exp.Subquery):
        ctes = with_ctes(node, ctes)
        node = node.this
    if isinstance(node, exp.Union):
        return _union(context, node, name, ctes, asked, around)
    if not isinstance(node, exp.Select):
        raise context.refuse(node, "this is no SELECT", "write a SELECT over the relations of the spec")
    return compile_select(context, node, name, ctes, asked, around)


def _union(
    context: Context, node: exp.Union, name: str, ctes: Ctes, asked: Semantics | None, around: Scope | None
) -> Query:
    inside = with_ctes(node, ctes)
    semantics: Semantics = asked or ("set" if node.args.get("distinct") else "bag")
    members: list[tuple[exp.Expr, Query]] = []
    for i, member in enumerate(_members(node), 1):
        with context.gather():
            members.append(
                (member, compile_any(context, member, f"{name}.{i}", inside, _member(semantics, member), around))
            )
    context.stop_on_problems()
    columns = _columns(context, members)
    context.stop_on_problems()
    order = order_keys(context, node.args.get("order"), [c.name for c in columns], None, ())
    context.stop_on_problems()
    keys = dict.fromkeys(VariableOrder(columns[index].name, descending) for index, descending, _ in order)
    unordered = tuple(replace(query, order=()) for _, query in members)
    return UnionQuery(name, unordered, columns, semantics, tuple(keys))


def _members(node: exp.Union) -> list[exp.Expr]:
    """The members of a chain of one kind of union, which is associative."""
    found: list[exp.Expr] = []
    for side in (node.this, node.expression):
        inner = unwrapped(side)
        same = isinstance(inner, exp.Union) and bool(inner.args.get("distinct")) == bool(node.args.get("distinct"))
        if same and isinstance(inner, exp.Union) and not inner.args.get("with_"):
            found += _members(inner)
        else:
            found.append(side)
    return found


def _member(semantics: Semantics, node: exp.Expr) -> Semantics | None:
    """Members of a distinct union may be distinct themselves, unless they aggregate."""
    inner = unwrapped(node)
    if semantics == "set" and isinstance(inner, exp.Select) and not is_aggregating(inner):
        return "set"
    return None


def _columns(context: Context, members: list[tuple[exp.Expr, Query]]) -> tuple[OutputColumn, ...]:
    first = members[0][1].columns
    columns = list(first)
    for node, query in members[1:]:
        if len(query.columns) != len(first):
            at = context.places.keyword(node, "SELECT")
            message = f"this SELECT has {many(len(query.columns), 'column')}, the first one has {len(first)}"
            context.problems += context.refuse_at(at, message, "give all members the same columns").problems
            continue
        for i, column in enumerate(query.columns):
            common = widen(columns[i].type, column.type)
            if common is None:
                at = context.places.keyword(node, "SELECT")
                message = f"column {first[i].name} is {columns[i].type} before and {column.type} here: no common type"
                context.problems += context.refuse_at(at, message, "cast one of the two").problems
                continue
            columns[i] = replace(columns[i], type=common, nullable=columns[i].nullable or column.nullable)
    return tuple(OutputColumn(c.name, c.type, c.nullable, "variable", c.name) for c in columns)
