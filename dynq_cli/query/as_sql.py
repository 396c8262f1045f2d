"""Write a query in normal form as SQL that DuckDB evaluates.

Nothing here is clever. An atom is a subselect of its bindings, a shared variable is an equality, a
semi atom is EXISTS. It shares no code with the front ends, the plans and the engine, so it can judge them.
"""

from __future__ import annotations

from decimal import Decimal

from dynq_cli.query.aggregates import basic
from dynq_cli.query.aggregates.ordered import first_sql, fraction_of
from dynq_cli.query.aggregates.products import exact_sql
from dynq_cli.query.normal_form import (
    Aggregate,
    Atom,
    Binding,
    ColumnOrder,
    Comparison,
    ConjunctiveQuery,
    Factor,
    Monomial,
    OutputColumn,
    Query,
    UnionQuery,
    View,
)
from dynq_cli.query.scalar import quote


def as_sql(query: Query) -> str:
    """One SELECT with the meaning of `query`, its order aside."""
    if isinstance(query, UnionQuery):
        word = " UNION ALL " if query.semantics == "bag" else " UNION "
        return "SELECT * FROM (" + word.join(f"(SELECT * FROM ({as_sql(m)}))" for m in query.members) + ")"
    return _conjunctive(query)


def _conjunctive(query: ConjunctiveQuery) -> str:
    views = ", ".join(f"{quote(v.name)} AS ({view_sql(v)})" for v in query.views)
    body = body_of(query)
    inner = _grouped(query, body) if query.grouped else _plain(query, body)
    columns = ", ".join(f"{column_of(query, c)} AS {quote(c.name)}" for c in query.columns)
    having = f" WHERE {query.having.sql}" if query.having else ""
    text = f"SELECT {columns or '1 AS one'} FROM ({inner}) AS result{having}"
    return f"WITH {views} {text}" if views else text


def view_sql(view: View) -> str:
    """A view's query; of a window, the rows of each partition are numbered in their whole order."""
    text, window = as_sql(view.query), view.window
    if window is None:
        return text
    taken = view.columns[: len(view.columns) - len(window.functions)]
    ordered = [f"{quote(o.column)} {_direction(o)}" for o in window.order]
    ordered += [f"{quote(c.name)} NULLS LAST" for c in taken if c.name not in {o.column for o in window.order}]
    keys = ", ".join(map(quote, window.partition))
    columns = ", ".join(quote(c.name) for c in taken)
    place = f"row_number() OVER ({f'PARTITION BY {keys} ' if keys else ''}ORDER BY {', '.join(ordered)})"
    number = f"dense_rank() OVER (ORDER BY {keys})" if keys else "1"
    numbered = f'SELECT {columns}, {place} AS "_place", {number} AS "_partition" FROM ({text})'
    if window.functions:
        made = ", ".join(f"CAST({f.sql} AS {f.type.sql}) AS {quote(f.name)}" for f in window.functions)
        return f"SELECT {columns}, {made} FROM ({numbered})"
    within = "" if window.limit is None else f' AND "_place" <= {window.offset + window.limit}'
    return f'SELECT {columns} FROM ({numbered}) WHERE "_place" > {window.offset}{within}'


def _direction(o: ColumnOrder) -> str:
    return f"{'DESC' if o.descending else 'ASC'} NULLS {'FIRST' if o.nulls_first else 'LAST'}"


def column_of(query: ConjunctiveQuery, column: OutputColumn) -> str:
    if column.kind == "expression":
        return column.source
    # What a column was joined with may have made its variable wider than the column.
    is_wider = column.kind == "variable" and query.variable(column.source).type != column.type
    return f"CAST({quote(column.source)} AS {column.type.sql})" if is_wider else quote(column.source)


def _plain(query: ConjunctiveQuery, body: str) -> str:
    head = ", ".join(f"{where_bound(query, v)} AS {quote(v)}" for v in query.head) or "1 AS one"
    return f"SELECT {'DISTINCT ' if query.semantics == 'set' else ''}{head} {body}"


def grouped_of(query: ConjunctiveQuery) -> str:
    """The groups of a query: head variables and aggregates, without HAVING."""
    return _grouped(query, body_of(query))


def _grouped(query: ConjunctiveQuery, body: str) -> str:
    if query.semantics == "set":
        body = _distinct(query, body)
    head = [f"{_variable(query, v)} AS {quote(v)}" for v in query.head]
    values = [f"{_aggregate(query, a)} AS {quote(a.name)}" for a in query.aggregates]
    keys = ", ".join(_variable(query, v) for v in query.head)
    tail = f" GROUP BY {keys}" if keys else "" if query.one_row else " HAVING COUNT(*) > 0"
    return f"SELECT {', '.join([*head, *values]) or 'COUNT(*) AS n'} {body}{tail}"


def _distinct(query: ConjunctiveQuery, body: str) -> str:
    """Every binding of the body's variables once, with the factors, which depend on them."""
    bound = [v.name for v in query.variables if _in_joins(query, v.name)]
    columns = [f"{where_bound(query, v)} AS {quote(v)}" for v in bound]
    for i, a in enumerate(query.aggregates):
        for j, m in enumerate(a.monomials):
            columns += [f"{alias_of(f.atom)}.{_factor_name(i, j, k)}" for k, f in enumerate(m.factors)]
    return f"FROM (SELECT DISTINCT {', '.join(columns) or '1 AS one'} {body}) AS bindings"


def _variable(query: ConjunctiveQuery, variable: str) -> str:
    """A variable as aggregates see it: of the distinct bindings, or of the atom that binds it."""
    return f"bindings.{quote(variable)}" if query.semantics == "set" else where_bound(query, variable)


def _factor(query: ConjunctiveQuery, factor: Factor, name: str) -> str:
    return f"bindings.{name}" if query.semantics == "set" else f"{alias_of(factor.atom)}.{name}"


def alias_of(index: int) -> str:
    return f"a{index}"


def _factor_name(aggregate: int, monomial: int, factor: int) -> str:
    return f"factor_{aggregate}_{monomial}_{factor}"


def _subselect(query: ConjunctiveQuery, index: int, *, numbered: bool = False) -> str:
    atom = query.atoms[index]
    columns = ["rowid"] if numbered else []
    columns += [f"{b.scalar.sql} AS {quote(b.variable)}" for b in atom.bindings]
    for i, a in enumerate(query.aggregates):
        for j, m in enumerate(a.monomials):
            for k, f in enumerate(m.factors):
                if f.atom == index:
                    columns.append(f"{f.scalar.sql} AS {_factor_name(i, j, k)}")
    where = " AND ".join(f"({f.sql})" for f in atom.filters) or "TRUE"
    return f"(SELECT {', '.join(columns) or '1 AS one'} FROM {quote(atom.source)} WHERE {where}) AS {alias_of(index)}"


def _joins(query: ConjunctiveQuery) -> list[tuple[int, Atom]]:
    return [(i, a) for i, a in enumerate(query.atoms) if a.mode == "join"]


def where_bound(query: ConjunctiveQuery, variable: str) -> str:
    index = next(i for i, a in _joins(query) if variable in a.variables)
    return f"{alias_of(index)}.{quote(variable)}"


def _in_joins(query: ConjunctiveQuery, variable: str) -> bool:
    return any(variable in a.variables for _, a in _joins(query))


def body_of(query: ConjunctiveQuery, *, numbered: bool = False) -> str:
    """FROM and WHERE of a body; `numbered`: the row numbers of its atoms can be selected as `alias.rowid`."""
    tables = ", ".join(_subselect(query, i, numbered=numbered) for i, _ in _joins(query))
    conditions = []
    for i, atom in _joins(query):
        for b in atom.bindings:
            first = where_bound(query, b.variable)
            here = f"{alias_of(i)}.{quote(b.variable)}"
            if first != here:
                conditions.append(f"{first} {_equality(b)} {here}")
    for c in query.comparisons:
        if _in_joins(query, c.left) and _in_joins(query, c.right):
            conditions.append(_comparison(c, where_bound(query, c.left), where_bound(query, c.right)))
    for i, atom in enumerate(query.atoms):
        if atom.mode != "join":
            conditions.append(_exists(query, i))
    return f"FROM {tables} WHERE {' AND '.join(conditions) or 'TRUE'}"


def _equality(b: Binding) -> str:
    """Only what is joined NULL to NULL has no filter that leaves NULL out."""
    return "IS NOT DISTINCT FROM" if b.scalar.nullable else "="


def _exists(query: ConjunctiveQuery, index: int) -> str:
    atom = query.atoms[index]
    conditions = []
    for b in atom.bindings:
        here = f"{alias_of(index)}.{quote(b.variable)}"
        if _in_joins(query, b.variable):
            there = where_bound(query, b.variable)
            if atom.null_aware == b.variable:
                conditions.append(f"({here} = {there} OR {here} IS NULL OR {there} IS NULL)")
            else:
                conditions.append(f"{here} {_equality(b)} {there}")
    for c in query.comparisons:
        sides = []
        for v in (c.left, c.right):
            if _in_joins(query, v):
                sides.append(where_bound(query, v))
            elif v in atom.variables:
                sides.append(f"{alias_of(index)}.{quote(v)}")
        if len(sides) == 2 and not (_in_joins(query, c.left) and _in_joins(query, c.right)):
            conditions.append(_comparison(c, *sides))
    inner = f"EXISTS (SELECT 1 FROM {_subselect(query, index)} WHERE {' AND '.join(conditions) or 'TRUE'})"
    return inner if atom.mode == "semi" else f"NOT {inner}"


def _comparison(c: Comparison, left: str, right: str) -> str:
    if c.offset and c.temporal == "timestamp":
        right = f"{right} + to_microseconds({int(c.offset)})"
    elif c.offset:
        right = f"{right} + ({int(c.offset) if c.temporal else c.offset})"
    return f"{left} {c.op} {right}"


def _aggregate(query: ConjunctiveQuery, a: Aggregate) -> str:
    definition = basic(a.function)
    if definition.state != "sums":
        values = [_variable(query, v) for v in a.variables]
        if a.detail:
            return f"CAST({_ordered(definition.reading, values, a.detail)} AS {a.type.sql})"
        if definition.reading == "most":
            return f"MODE({values[0]} ORDER BY {values[0]})"
        if definition.state == "product" and not a.type.is_float:
            return exact_sql(values[0], a.type)
        called = definition.sql(values[0] if len(values) == 1 else _row_of(values))
        return f"CAST({called} AS {a.type.sql})" if definition.reading == "sum" else called
    index = query.aggregates.index(a)
    names = [
        [_factor(query, f, _factor_name(index, j, k)) for k, f in enumerate(m.factors)]
        for j, m in enumerate(a.monomials)
    ]
    if definition.reading == "count":
        present = " AND ".join(f"{n} IS NOT NULL" for group in names for n in group)
        return f"COUNT(CASE WHEN {present} THEN 1 END)" if present else "COUNT(*)"
    products = [_product(m, group) for m, group in zip(a.monomials, names, strict=True)]
    return f"CAST({definition.sql(' + '.join(products))} AS {a.type.sql})"


def _ordered(reading: str, values: list[str], detail: str) -> str:
    if reading == "first":
        return first_sql(values, detail)
    fraction, name = fraction_of(detail), "QUANTILE_CONT" if reading == "between" else "QUANTILE_DISC"
    direction = f" ORDER BY {values[0]} DESC" if fraction.descending else ""
    return f"{name}({values[0]}, {fraction.value:f}{direction})"


def _row_of(values: list[str]) -> str:
    """A row of values; NULL where one of them is."""
    return f"CASE WHEN {' AND '.join(f'{v} IS NOT NULL' for v in values)} THEN ROW({', '.join(values)}) END"


def _product(monomial: Monomial, names: list[str]) -> str:
    """Products of integers are taken in 128 bits, as sums are."""
    several = len(names) > 1
    factors = [
        f"CAST({name} AS HUGEINT)" if several and factor.scalar.type.is_integer else name
        for factor, name in zip(monomial.factors, names, strict=True)
    ]
    return " * ".join([_number(monomial.coefficient), *factors])


def _number(value: Decimal) -> str:
    return f"({value:f})"
