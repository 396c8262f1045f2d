"""Write as SQL what explains a row of a result: the rows of the atoms that make it, or the atoms that keep it out.

    bindings_sql(query, columns, limit)    the row of each joined atom, by number, of every binding that makes the row
    groups_sql(query, columns)             the keys of the groups that are the row, a table for `bindings_sql`
    exists_sql(query, columns, atoms)      whether these atoms alone have a binding that would make it

The row asked for is the one row of a table `GIVEN`, with the given output columns. Each source is a table with its rows
numbered by `rowid`. A semi atom takes part as a join: the rows that it matches are among those that make the row.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dynq_cli.query.as_sql import alias_of, body_of, column_of, grouped_of, where_bound
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn
from dynq_cli.query.scalar import quote

GIVEN = "given row"
GROUPS = "groups of the row"


def joined_atoms(query: ConjunctiveQuery) -> list[int]:
    """The atoms whose rows make a result row, by number."""
    return [i for i, atom in enumerate(query.atoms) if atom.mode != "anti"]


def bindings_sql(query: ConjunctiveQuery, columns: Collection[str], limit: int) -> str:
    """Return the row numbers of the joined atoms, a column `r0`, `r1`, … each, of at most `limit` bindings."""
    as_joins = _with_joins(query)
    rows = ", ".join(f"{alias_of(i)}.rowid AS r{i}" for i in joined_atoms(query))
    condition = _in_groups(query) if query.grouped else ""
    body = body_of(as_joins, numbered=True)
    heads = ", ".join(f"{where_bound(as_joins, v)} AS {quote(v)}" for v in query.head)
    inner = f"SELECT {', '.join(filter(None, [rows, heads])) or '1 AS one'} {body}"
    where = condition or _matches(query, [c for c in query.columns if c.name in columns])
    picked = ", ".join(f"r{i}" for i in joined_atoms(query))
    return f"SELECT {picked or '1 AS one'} FROM ({inner}) AS result WHERE {where} ORDER BY ALL LIMIT {limit}"


def _with_joins(query: ConjunctiveQuery) -> ConjunctiveQuery:
    atoms = tuple(replace(a, mode="join", null_aware=None) if a.mode == "semi" else a for a in query.atoms)
    return replace(query, atoms=atoms)


def _matches(query: ConjunctiveQuery, columns: list[OutputColumn]) -> str:
    given = f"FROM {quote(GIVEN)}"
    conditions = [f"{column_of(query, c)} IS NOT DISTINCT FROM (SELECT {quote(c.name)} {given})" for c in columns]
    return " AND ".join(conditions) or "TRUE"


def groups_sql(query: ConjunctiveQuery, columns: Collection[str]) -> str:
    """Return the keys of the groups that are the row, with aggregates that are as given, and HAVING; "" of a query
    without keys."""
    if not query.grouped or not query.head:
        return ""
    told = [c for c in query.columns if c.name in columns]
    if {c.source for c in told if c.kind == "variable"} >= set(query.head):
        told = [c for c in told if c.kind == "variable"]  # the key says which group it is; sums may differ in digits
    having = [query.having.sql] if query.having else []
    where = " AND ".join([*having, _matches(query, told)])
    keys = ", ".join(quote(v) for v in query.head)
    return f"SELECT {keys} FROM ({grouped_of(query)}) AS result WHERE {where}"


def _in_groups(query: ConjunctiveQuery) -> str:
    if not query.head:
        return "TRUE"
    same = " AND ".join(f"g.{quote(v)} IS NOT DISTINCT FROM result.{quote(v)}" for v in query.head)
    return f"EXISTS (SELECT 1 FROM {quote(GROUPS)} AS g WHERE {same})"


def exists_sql(query: ConjunctiveQuery, columns: Collection[str], atoms: Collection[int]) -> str:
    """Return a query that has a row if these atoms have a binding with the values of the head that they bind."""
    left = _part(query, atoms)
    told = [
        c
        for c in query.columns
        if c.name in columns and c.kind == "variable" and any(c.source in a.variables for a in left.atoms)
    ]
    heads = dict.fromkeys(c.source for c in told)
    inner = ", ".join(f"{where_bound(left, v)} AS {quote(v)}" for v in heads) or "1 AS one"
    return f"SELECT 1 FROM (SELECT {inner} {body_of(left)}) AS result WHERE {_matches(left, told)} LIMIT 1"


def refusing_sql(query: ConjunctiveQuery, columns: Collection[str], anti: int, limit: int) -> str:
    """Return the row numbers of an anti atom that meet the bindings which would make the row without it."""
    kept = joined_atoms(query)
    left = _part(query, [*kept, anti])
    at = len(kept)
    told = [c for c in query.columns if c.name in columns and c.kind == "variable"]
    heads = dict.fromkeys(c.source for c in told)
    inner = ", ".join([f"{alias_of(at)}.rowid AS r", *(f"{where_bound(left, v)} AS {quote(v)}" for v in heads)])
    return (
        f"SELECT DISTINCT r FROM (SELECT {inner} {body_of(left, numbered=True)}) AS result "
        f"WHERE {_matches(left, told)} ORDER BY r LIMIT {limit}"
    )


def _part(query: ConjunctiveQuery, atoms: Collection[int]) -> ConjunctiveQuery:
    """The query over some of its atoms, all joined, with the comparisons that they can decide."""
    kept = tuple(replace(query.atoms[i], mode="join", null_aware=None) for i in atoms)
    bound = {v for atom in kept for v in atom.variables}
    comparisons = tuple(c for c in query.comparisons if c.variables <= bound)
    return replace(query, atoms=kept, comparisons=comparisons, aggregates=(), having=None)
