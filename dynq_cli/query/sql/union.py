"""UNION, EXCEPT and INTERSECT of queries, with and without ALL: the first one names the columns, as in SQL."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dynq_cli.query.normal_form import OutputColumn, Query, UnionQuery, VariableOrder, Window
from dynq_cli.query.sql.build import QueryContext
from dynq_cli.query.sql.by_places import column_orders, limit_of, prefix_of
from dynq_cli.query.sql.context import Context, Ctes, many
from dynq_cli.query.sql.except_intersect import compile_sides
from dynq_cli.query.sql.items import UNTYPED_NULL
from dynq_cli.query.sql.order import SortKey, order_keys
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.select import Member, compile_select
from dynq_cli.query.sql.shape import has_limit, is_aggregating, is_by_places, unwrapped
from dynq_cli.query.sql.sources import with_ctes
from dynq_cli.spec.model import Semantics
from dynq_cli.spec.types import Type, widen

_UNTYPED = UNTYPED_NULL.sql(dialect="duckdb")
_ONLY_NULLS = Type("int32")  # the type that DuckDB gives a column of nothing but NULL


def compile_any(
    context: QueryContext,
    node: exp.Expr,
    name: str,
    ctes: Ctes,
    asked: Semantics | None,
    around: Scope | None = None,
    member: Member | None = None,
) -> Query:
    """A SELECT, or a union, difference or intersection of queries; `member` is which one of a union around it is."""
    while isinstance(node, exp.Subquery):
        ctes = with_ctes(node, ctes)
        node = node.this
    if isinstance(node, exp.SetOperation):
        return _united(context, node, name, ctes, asked, around, member or "first")
    if not isinstance(node, exp.Select):
        raise context.refuse(node, "this is no SELECT", "write a SELECT over the relations of the spec")
    return compile_select(context, node, name, ctes, asked, around, member)


def _united(
    context: QueryContext,
    node: exp.SetOperation,
    name: str,
    ctes: Ctes,
    asked: Semantics | None,
    around: Scope | None,
    first: Member,
) -> Query:
    inside = with_ctes(node, ctes)
    whole: Semantics = "set" if node.args.get("distinct") else "bag"
    semantics, own_name = (whole, context.view_name(name, "rows")) if has_limit(node) else (asked or whole, name)
    members: list[tuple[exp.Expr, Query]] = []
    for i, member in enumerate(_members(node), 1):
        with context.gather():
            which = first if i == 1 else "later"
            own = _member(semantics, member)
            members.append((member, compile_any(context, member, f"{own_name}.{i}", inside, own, around, which)))
    context.stop_on_problems()
    columns = _columns(context, members)
    context.stop_on_problems()
    order = order_keys(context, node.args.get("order"), [c.name for c in columns], None, ())
    context.stop_on_problems()
    limit, offset = limit_of(context, node)
    unordered = tuple(_with_nulls_of(columns, replace(query, order=())) for _, query in members)
    is_prefix = limit is not None or bool(offset)
    union: Query
    if isinstance(node, exp.Union):
        keys = dict.fromkeys(_order_of(columns[key.index].name, key) for key in order)
        union = UnionQuery(own_name, unordered, columns, semantics, () if is_prefix else tuple(keys))
    else:
        union = compile_sides(
            context,
            own_name,
            unordered,
            columns,
            () if is_prefix else order,
            context.at(node),
            denied=isinstance(node, exp.Except),
            distinct=semantics == "set",
        )
    if is_prefix:
        window = Window((), column_orders(order, [c.name for c in columns]), limit, offset)
        return prefix_of(context, name, union, window, len(columns), order, asked)
    return union


def _order_of(column: str, key: SortKey) -> VariableOrder:
    nulls = key.nulls_first if key.nulls_first == key.descending else None
    return VariableOrder(column, key.descending, nulls_first=nulls)


def _members(node: exp.SetOperation) -> list[exp.Expr]:
    """The members of a chain of one operation, as far as it is associative: of EXCEPT on the left, and without ALL."""
    found: list[exp.Expr] = []
    for side in (node.this, node.expression):
        inner = unwrapped(side)
        same = type(inner) is type(node) and bool(inner.args.get("distinct")) == bool(node.args.get("distinct"))
        if isinstance(node, exp.Except) and (side is node.expression or not node.args.get("distinct")):
            same = False
        if same and isinstance(inner, exp.SetOperation) and not inner.args.get("with_") and not has_limit(inner):
            found += _members(inner)
        else:
            found.append(side)
    return found


def _member(semantics: Semantics, node: exp.Expr) -> Semantics | None:
    """Members of a distinct union may be distinct themselves, unless they aggregate."""
    inner = unwrapped(node)
    if semantics == "set" and isinstance(inner, exp.Select) and not is_aggregating(inner) and not is_by_places(inner):
        return "set"
    return None


def _columns(context: Context, members: list[tuple[exp.Expr, Query]]) -> tuple[OutputColumn, ...]:
    first = members[0][1].columns
    kinds: list[Type | None] = [None] * len(first)
    nullable = [False] * len(first)
    for node, query in members:
        if len(query.columns) != len(first):
            at = context.places.keyword(node, "SELECT")
            message = f"this SELECT has {many(len(query.columns), 'column')}, the first one has {len(first)}"
            context.problems += context.refuse_at(at, message, "give all members the same columns").problems
            continue
        for i, column in enumerate(query.columns):
            nullable[i] |= column.nullable
            if _is_untyped_null(column):
                continue
            so_far = kinds[i]
            common = column.type if so_far is None else widen(so_far, column.type)
            if common is None:
                at = context.places.keyword(node, "SELECT")
                message = f"column {first[i].name} is {so_far} before and {column.type} here: no common type"
                context.problems += context.refuse_at(at, message, "cast one of the two").problems
                continue
            kinds[i] = common
    return tuple(
        OutputColumn(c.name, kind or _ONLY_NULLS, may_be_null, "variable", c.name)
        for c, kind, may_be_null in zip(first, kinds, nullable, strict=True)
    )


def _is_untyped_null(column: OutputColumn) -> bool:
    return column.kind == "expression" and column.source == _UNTYPED


def _with_nulls_of(columns: tuple[OutputColumn, ...], query: Query) -> Query:
    """A member with its plain NULLs in the types of the union's columns."""
    typed = tuple(
        replace(own, type=column.type, source=f"CAST(NULL AS {column.type.sql})") if _is_untyped_null(own) else own
        for own, column in zip(query.columns, columns, strict=True)
    )
    return replace(query, columns=typed)
