"""ORDER BY: which output columns, in which direction.

dynq orders NULL before everything else; an explicit NULLS FIRST or LAST must say the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dynq_cli.query.sql.context import Context, bare, key_of, many
from dynq_cli.query.sql.items import Item
from dynq_cli.query.sql.scope import Scope

_HINT = "order by output columns: their names, positions or expressions"


def order_keys(
    context: Context, node: exp.Expr | None, names: Sequence[str], scope: Scope | None, items: Sequence[Item]
) -> list[tuple[int, bool, int]]:
    """The keys of an ORDER BY as (index of the output column, descending, place)."""
    found: list[tuple[int, bool, int]] = []
    for key in node.expressions if node is not None else ():
        with context.gather():
            descending = bool(key.args.get("desc"))
            _check_nulls(context, key, descending)
            found.append((_index(context, key, names, scope, items), descending, context.at(key)))
    return found


def _check_nulls(context: Context, key: exp.Expr, descending: bool) -> None:
    if not context.places.says(key.this, "NULLS"):
        return
    first = bool(key.args.get("nulls_first"))
    if first == descending:
        said, ours = ("FIRST", "LAST") if first else ("LAST", "FIRST")
        at = context.places.word_after(key.this, "NULLS")
        direction = "descending" if descending else "ascending"
        message = f"NULLS {said}: in {direction} order dynq puts NULL {'last' if descending else 'first'}"
        raise context.refuse_at(at, message, f"write NULLS {ours}, or leave it out")


def _index(context: Context, key: exp.Expr, names: Sequence[str], scope: Scope | None, items: Sequence[Item]) -> int:
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
        wanted = key_of(scope.resolve(node))
        by_text = [i for i, item in enumerate(items) if key_of(item.node) == wanted]
        if by_text:
            return by_text[0]
    shown = node.sql(dialect="duckdb")
    raise context.refuse(key, f"ORDER BY {shown} is not an output column", _HINT)
