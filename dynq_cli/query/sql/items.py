"""The SELECT list: `*` expanded, names given, columns resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dynq_cli.query.aggregates.definition import Additive
from dynq_cli.query.problems import refuse
from dynq_cli.query.sql.calls import arguments_of, definition_of
from dynq_cli.query.sql.context import bare, plain_name
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import has_query

UNTYPED_NULL = exp.cast(exp.Null(), "BOOLEAN")


@dataclass(frozen=True)
class Item:
    """One output column: its name, its resolved expression, its place."""

    name: str
    node: exp.Expr
    at: int


def select_items(scope: Scope, select: exp.Select) -> list[Item]:
    """Every output column in order, but those with a problem, which are noted. Aliases become
    visible to what is resolved later. Columns with subqueries are left as they are."""
    context = scope.context
    items: list[Item] = []
    for node in select.expressions:
        with context.gather():
            items += _items(scope, node)
    return items


def check_names(scope: Scope, items: list[Item]) -> None:
    """Names of output columns leave `_…` to dynq and are unique. Notes the problems."""
    for item in items:
        if item.name.startswith("_"):
            message = f"the output column {item.name} starts with an underscore, which dynq keeps for itself"
            hint = f"name it with AS {item.name.lstrip('_') or 'x'}"
            scope.context.problems += refuse(item.at, message, hint).problems
    check_unique(scope, items)


def check_unique(scope: Scope, items: list[Item]) -> None:
    """No two columns have one name; the pairs of one `*` are one problem."""
    seen: set[str] = set()
    twice: dict[int, list[str]] = {}
    for item in items:
        if item.name.lower() in seen:
            twice.setdefault(item.at, []).append(item.name)
        seen.add(item.name.lower())
    for at, names in twice.items():
        message = f"two output columns are called {' and two '.join(names[:4])}{' and so on' * (len(names) > 4)}"
        hint = f"list the columns and name one of each pair: … AS {names[0]}_2"
        scope.context.problems += refuse(at, message, hint).problems


def as_member(items: list[Item], first: bool) -> list[Item]:
    """The columns of a member of a union, where a plain NULL takes the type of the other members' column.

    Only the first member names the columns of the result: in the others, names that are taken or not allowed are
    replaced.
    """
    typed = [replace(i, node=UNTYPED_NULL.copy()) if isinstance(bare(i.node), exp.Null) else i for i in items]
    if first:
        return typed
    taken = {item.name.lower() for item in typed}
    seen: set[str] = set()
    named = []
    for item in typed:
        name, count = item.name, 1
        while name.startswith("_") or name.lower() in seen or (count > 1 and name.lower() in taken):
            count += 1
            name = f"{item.name.lstrip('_')}_{count}"
        seen.add(name.lower())
        named.append(replace(item, name=name))
    return named


def _items(scope: Scope, node: exp.Expr) -> list[Item]:
    context = scope.context
    at = context.at(node)
    inner = bare(node)
    if isinstance(inner, exp.Star):
        return _star(scope, "", inner, at)
    if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
        return _star(scope, inner.table, inner.this, at)
    value = node.this if isinstance(node, exp.Alias) else node
    name = node.alias if isinstance(node, exp.Alias) else _default_name(scope, value)
    if has_query(value):
        return [Item(name, value, at)]
    resolved = scope.resolve(value)
    if isinstance(node, exp.Alias):
        scope.aliases.setdefault(name.lower(), resolved)
    return [Item(name, resolved, at)]


def _star(scope: Scope, table: str, star: exp.Star, at: int) -> list[Item]:
    context = scope.context
    found = scope.star(table, star)
    names = {name.lower() for name, _ in found}
    gone = {node.name.lower(): node for node in star.args.get("except_") or ()}
    made = {node.alias.lower(): node for node in star.args.get("replace") or ()}
    for name, node in (gone | made).items():
        if name not in names:
            raise context.refuse(node, f"* has no column {name}", "name columns of the tables in FROM")
    items = []
    for name, value in found:
        if name.lower() in gone:
            continue
        copy = value.copy()
        for part in copy.walk():
            part.meta["start"] = at
        replaced = made.get(name.lower())
        items.append(Item(name, copy if replaced is None else scope.resolve(replaced.this), at))
    return items


def _default_name(scope: Scope, node: exp.Expr) -> str:
    inner = bare(node)
    if isinstance(inner, exp.Column):
        for source in scope.sources:
            if not inner.table or source.alias.lower() == inner.table.lower():
                for name, _ in source.columns:
                    if name.lower() == inner.name.lower():
                        return name
        return inner.name
    if isinstance(inner, exp.Count) and (inner.this is None or isinstance(inner.this, exp.Star)):
        return "count_star"
    definition = definition_of(inner)
    if isinstance(definition, Additive):
        # sqlglot has one word for synonyms, and not always the one that is written.
        given = ", ".join(a.sql(dialect="duckdb", comments=False) for a in arguments_of(inner))
        return plain_name(f"{definition.name}({given})")
    return plain_name(inner.sql(dialect="duckdb", comments=False))
