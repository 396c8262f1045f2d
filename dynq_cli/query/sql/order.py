"""ORDER BY: which output columns, in which direction, and where NULL is.

Without a word on NULL, the order of a whole result has NULL first if it ascends, last if it descends. Where an order
decides which rows there are, NULL is last in both directions, as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dynq_cli.query.sql.context import Context, bare, key_of, many
from dynq_cli.query.sql.items import Item
from dynq_cli.query.sql.scope import Scope

_HINT = "order by output columns: their names, positions or expressions"


@dataclass(frozen=True)
class SortKey:
    """A key of an ORDER BY: the index of an output column; `nulls_first` is None where nothing is said of NULL."""

    index: int
    descending: bool
    nulls_first: bool | None
    at: int


def order_keys(
    context: Context,
    node: exp.Expr | None,
    names: Sequence[str],
    scope: Scope | None,
    items: Sequence[Item],
    hidden: list[Item] | None = None,
) -> list[SortKey]:
    """The keys of an ORDER BY. One that is no output column becomes an item of `hidden`, if that is given."""
    found: list[SortKey] = []
    for key in node.expressions if node is not None else ():
        with context.gather():
            if isinstance(key.this, exp.Var) and key.this.name.upper() == "ALL":
                first = bool(key.args.get("nulls_first")) if context.places.says(key.this, "NULLS") else None
                every = (SortKey(i, bool(key.args.get("desc")), first, context.at(key)) for i in range(len(names)))
                found += every
            else:
                found.append(sort_key(context, key, names, scope, items, hidden))
    return found


def sort_key(
    context: Context,
    key: exp.Expr,
    names: Sequence[str],
    scope: Scope | None,
    items: Sequence[Item],
    hidden: list[Item] | None = None,
) -> SortKey:
    nulls_first = bool(key.args.get("nulls_first")) if context.places.says(key.this, "NULLS") else None
    index = _index(context, key, names, scope, items, hidden)
    return SortKey(index, bool(key.args.get("desc")), nulls_first, context.at(key))


def _index(
    context: Context,
    key: exp.Expr,
    names: Sequence[str],
    scope: Scope | None,
    items: Sequence[Item],
    hidden: list[Item] | None,
) -> int:
    node = bare(key.this)
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.this) if node.this.isdigit() else 0
        if not 1 <= position <= len(names):
            message = f"ORDER BY {node.this}: the SELECT has {many(len(names), 'output column')}"
            raise context.refuse(key, message, _HINT)
        return position - 1
    if isinstance(node, exp.Column) and not node.table:
        by_name = [i for i, name in enumerate(names) if name.lower() == node.name.lower()]
        if by_name:
            return by_name[0]
    if scope is not None:
        resolved = scope.resolve(node)
        wanted = key_of(resolved)
        by_text = [i for i, item in enumerate((*items, *(hidden or ()))) if key_of(item.node) == wanted]
        if by_text:
            return by_text[0]
        if hidden is not None:
            taken, count = {name.lower() for name in (*names, *(item.name for item in hidden))}, 1
            while f"order_{count}" in taken:
                count += 1
            hidden.append(Item(f"order_{count}", resolved, context.at(key)))
            return len(names) + len(hidden) - 1
    shown = node.sql(dialect="duckdb")
    raise context.refuse(key, f"ORDER BY {shown} is not an output column", _HINT)
