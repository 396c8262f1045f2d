"""What a program amounts to, step by step: trees by DuckDB, relations and groups in a few lines of Python.

It knows nothing of deltas, codes and arenas. A wide decimal's pair is (its digits, 0) here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb

from dynq_cli.plan.program import Cycle, Derived, Groups, Lookups, Measure, Program, Together, Tree, high, low, query_of
from dynq_cli.query.normal_form import Atom, Binding, Comparison, ConjunctiveQuery, Scalar
from dynq_cli.query.scalar import compare, quote, shift

Row = tuple[Any, ...]


def run(program: Program, connection: duckdb.DuckDBPyConnection) -> Counter[Row]:
    """The rows of the query's result with their copies, from the tables of a database, which it leaves as it was."""
    return _ran(program, connection)[0]


def contents(program: Program, connection: duckdb.DuckDBPyConnection) -> dict[str, Counter[Row]]:
    """The rows of every tree's result and of every derived relation."""
    return _ran(program, connection)[1]


def _ran(program: Program, connection: duckdb.DuckDBPyConnection) -> tuple[Counter[Row], dict[str, Counter[Row]]]:
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    held: dict[str, Counter[Row]] = {}
    try:
        results: dict[str, tuple[tuple[str, ...], Counter[Row]]] = {}
        for step in program.steps:
            if isinstance(step, Tree | Cycle):
                query = query_of(step)
                results[step.name] = query.head, _result(cursor, query)
                if isinstance(step, Cycle) and query.semantics == "set":
                    results[step.name] = query.head, _bindings(cursor, query)
                if isinstance(step, Cycle) and step.pairs is not None and step.pairs.totals:
                    results[step.name] = query.head, _totals(cursor, step)
            elif isinstance(step, Together):
                results[step.name] = step.form.head, _read(step, results)
            elif isinstance(step, Lookups):
                raise AssertionError(f"{step.name} has no rows")
            else:
                held[step.name] = _rows(step, results)
                _store(cursor, step, held[step.name])
        held |= {name: rows for name, (_, rows) in results.items()}
        return _shown(cursor, program.form, results[program.result.name][1]), held
    finally:
        cursor.execute("ROLLBACK")


def _read(step: Together, results: dict[str, tuple[tuple[str, ...], Counter[Row]]]) -> Counter[Row]:
    """The rows of several trees, and that the terms count them."""
    found: Counter[Row] = Counter()
    for member in step.members:
        names, rows = results[member.tree]
        for row, copies in rows.items():
            values = dict(zip(names, row, strict=True))
            taken = tuple(values[v] for v in member.variables)
            if all(_holds(c, dict(zip(step.form.head, taken, strict=True))) for c in step.where):
                found[taken] += copies
    if step.form.semantics == "set":
        found = Counter(dict.fromkeys(found, 1))
    many = sum(t.rows * results[t.tree][1].total() for t in step.terms)
    distinct = sum(t.distinct * len(results[t.tree][1]) for t in step.terms)
    assert (many, distinct) == (found.total(), len(found)), f"{step} counts {many, distinct}"
    return found


def _result(cursor: duckdb.DuckDBPyConnection, query: ConjunctiveQuery) -> Counter[Row]:
    assert not query.views and not query.grouped
    assert all(a.mode == "join" for a in query.atoms)
    tables = ", ".join(f"({_subselect(a)}) AS a{i}" for i, a in enumerate(query.atoms))
    # What no atom binds is always 1.
    first = {v: "1" for v in query.head if not any(v in a.variables for a in query.atoms)}
    same = []
    for i, atom in enumerate(query.atoms):
        for b in atom.bindings:
            here = f"a{i}.{quote(b.variable)}"
            if first.setdefault(b.variable, here) != here:
                same.append(f"{first[b.variable]} IS NOT DISTINCT FROM {here}")
    head = ", ".join(f"{first[v]}" for v in query.head)
    compared = [f"({_compared(query, c, first)})" for c in query.comparisons]
    where = " AND ".join([*same, *compared]) or "TRUE"
    if not head:
        (many,) = cursor.execute(f"SELECT count(*) FROM {tables} WHERE {where}").fetchone() or (0,)
        found = Counter({(): many} if many else {})
    else:
        rows = cursor.execute(f"SELECT {head}, count(*) FROM {tables} WHERE {where} GROUP BY {head}").fetchall()
        found = Counter({tuple(map(_one, row[:-1])): row[-1] for row in rows})
    return Counter(dict.fromkeys(found, 1)) if query.semantics == "set" else found


def _bindings(cursor: duckdb.DuckDBPyConnection, query: ConjunctiveQuery) -> Counter[Row]:
    """The rows of a cycle under set semantics, each as often as there are bindings of all variables."""
    found: Counter[Row] = Counter()
    every = tuple(dict.fromkeys((*query.head, *(v for a in query.atoms for v in sorted(a.variables)))))
    for row in _result(cursor, replace(query, head=every)):
        found[row[: len(query.head)]] += 1
    return found


def _totals(cursor: duckdb.DuckDBPyConnection, step: Cycle) -> Counter[Row]:
    """The one row of sums of a cycle; none without a binding."""
    assert step.pairs is not None
    atoms, named = [], []
    for i, atom in enumerate(step.query.atoms):
        values = dict.fromkeys(s for each in step.pairs.sums for s in (*each[i].factors, *each[i].present))
        named.append({s: f"value {i} {k}" for k, s in enumerate(values)})
        atoms.append(replace(atom, bindings=(*atom.bindings, *(Binding(name, s) for s, name in named[i].items()))))
    every = tuple(dict.fromkeys(b.variable for a in atoms for b in a.bindings))
    sums = [0] * len(step.pairs.sums)
    for row, copies in _result(cursor, replace(step.query, atoms=tuple(atoms), head=every)).items():
        bound = dict(zip(every, row, strict=True))
        for k, each in enumerate(step.pairs.sums):
            number: int | None = copies
            for names, weight in zip(named, each, strict=True):
                digits = [None if bound[names[s]] is None else _digits(bound[names[s]], s) for s in weight.factors]
                if None in [*digits, *(bound[names[s]] for s in weight.present)]:
                    number = None
                    break
                number = math.prod([number or 0, *(d or 0 for d in digits)])
            sums[k] += number or 0
    if not sums[0]:
        return Counter()
    shown = [(sums[t.sum], 0) if sums[t.present] else (None, None) for t in step.pairs.totals]
    return Counter({tuple(code for pair in shown for code in pair): 1})


def _digits(value: Any, scalar: Scalar) -> int:
    """A number without its point."""
    return int(Decimal(value).scaleb(scalar.type.scale))


def _compared(query: ConjunctiveQuery, c: Comparison, named: dict[str, str]) -> str:
    left, right = (Scalar(named[v], query.variable(v).type, True, ()) for v in (c.left, c.right))
    return compare(left, c.op, shift(right, c.offset)).sql


def _one(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _subselect(atom: Atom) -> str:
    columns = []
    for b in atom.bindings:
        text = f"CAST({b.scalar.sql} AS {b.scalar.type.sql})"
        if b.part:
            digits = f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS BIGINT)"
            text = digits if b.part == "high" else f"{digits} * 0"
        columns.append(f"{text} AS {quote(b.variable)}")
    where = " AND ".join(f"({f.sql})" for f in atom.filters) or "TRUE"
    return f"SELECT {', '.join(columns) or '1 AS one'} FROM {quote(atom.source)} WHERE {where}"


def _rows(step: Derived, results: dict[str, tuple[tuple[str, ...], Counter[Row]]]) -> Counter[Row]:
    taken: Counter[Row] = Counter()
    for feed in step.feeds:
        names, rows = results[feed.tree]
        for row, copies in rows.items():
            values = dict(zip(names, row, strict=True))
            if all(_holds(c, values) for c in feed.where):
                taken[tuple(values[c] for c in feed.columns)] += feed.sign * copies
    assert min(taken.values(), default=0) >= 0, "fewer than none"
    return +taken if step.groups is None else _grouped(step.groups, +taken)


def _holds(c: Comparison, values: dict[str, Any]) -> bool:
    from datetime import date, timedelta

    left, right = values[c.left], values[c.right]
    assert left is not None and right is not None
    if c.offset:
        if isinstance(right, date):
            right += timedelta(days=int(c.offset)) if c.temporal == "date" else timedelta(microseconds=int(c.offset))
        else:
            right += float(c.offset) if isinstance(right, float) else c.offset
    return bool({"<": left < right, "<=": left <= right, "!=": left != right}[c.op])


def _grouped(groups: Groups, taken: Counter[Row]) -> Counter[Row]:
    names = [c.name for c in groups.inputs]
    found: dict[Row, list[tuple[dict[str, Any], int]]] = {}
    if groups.one_row:
        found[()] = []
    for row, copies in taken.items():
        values = dict(zip(names, row, strict=True))
        found.setdefault(tuple(values[k] for k in groups.keys), []).append((values, copies))
    return Counter((*key, *(v for m in groups.measures for v in _measured(m, rows))) for key, rows in found.items())


def _number(values: dict[str, Any], name: str, scale: int) -> Any:
    return values[name] if name in values else _decimal(values[high(name)], scale)


def _decimal(digits: int | None, scale: int) -> Decimal | None:
    return None if digits is None else Decimal(digits).scaleb(-scale)


def _measured(measure: Measure, rows: Sequence[tuple[dict[str, Any], int]]) -> Iterable[Any]:
    a = measure.aggregate
    value: Any
    if a.function == "count":
        value = _many(measure, rows)
    elif measure.values:
        (name,) = measure.values
        several = {_number(values, name, a.type.scale) for values, _ in rows} - {None}
        value = len(several) if a.function == "count_distinct" else None
        if several and a.function != "count_distinct":
            value = min(several) if a.function == "min" else max(several)
    else:
        value = _total(measure, rows)
    if a.type.name == "decimal" and a.type.precision > 18:
        return [None, None] if value is None else [int(Decimal(value).scaleb(a.type.scale)), 0]
    return [value]


def _many(measure: Measure, rows: Sequence[tuple[dict[str, Any], int]]) -> int:
    """Rows where no factor is NULL, each as often as it counts."""
    names = [name for names in measure.factors for name in names]
    return sum(
        copies * math.prod(int(_number(values, name, 0)) for name in measure.counted)
        for values, copies in rows
        if all(_number(values, name, 0) is not None for name in names)
    )


def _total(measure: Measure, rows: Sequence[tuple[dict[str, Any], int]]) -> Any:
    a, total, many = measure.aggregate, Decimal(0), 0
    floats = 0.0
    for values, copies in rows:
        terms: list[Any] = []
        for monomial, names in zip(a.monomials, measure.factors, strict=True):
            factors = [_number(values, n, f.scalar.type.scale) for n, f in zip(names, monomial.factors, strict=True)]
            terms.append(None if None in factors else math.prod(factors, start=_fit(monomial.coefficient, factors)))
        if None in terms:
            continue
        many += copies
        for t in terms:
            if isinstance(t, float):
                floats += t * copies
            else:
                total += Decimal(t) * copies
    if not many:
        return None
    whole: Any = float(total) + floats if a.type.is_float else total
    if measure.counted:
        many = _many(measure, rows)
    return whole / many if a.function == "avg" else whole


def _fit(coefficient: Decimal, factors: Sequence[Any]) -> Any:
    return float(coefficient) if any(isinstance(f, float) for f in factors) else coefficient


def _store(cursor: duckdb.DuckDBPyConnection, step: Derived, rows: Counter[Row]) -> None:
    kept = [c.name for c in step.relation.columns]
    pairs = [c for c in step.columns if c.name not in kept]
    columns = ", ".join(f"{quote(c.name)} {c.type.sql}" for c in (*step.relation.columns, *pairs))
    cursor.execute(f"CREATE TABLE {quote(step.relation.name)} ({columns})")
    full = []
    for row, copies in rows.items():
        assert len(row) == len(kept), step
        values = dict(zip(kept, row, strict=True))
        for c in step.relation.columns:
            assert values[c.name] is not None or c.nullable, f"{c} is NULL"
        more = [_decimal(values[high(c.name)], c.type.scale) for c in pairs]
        assert all((values[high(c.name)] is None) == (values[low(c.name)] is None) for c in pairs)
        full += [[float("nan") if v == "NaN" and isinstance(v, str) else v for v in (*row, *more)]] * copies
    if full:
        marks = ", ".join("?" * (len(kept) + len(pairs)))
        cursor.executemany(f"INSERT INTO {quote(step.relation.name)} VALUES ({marks})", full)


def _shown(cursor: duckdb.DuckDBPyConnection, query: ConjunctiveQuery, rows: Counter[Row]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row, copies in rows.items():
        values = dict(zip(query.head, row, strict=True))
        shown = []
        for c in query.columns:
            if c.kind == "expression":
                shown.append((cursor.execute(f"SELECT {c.source}").fetchone() or ())[0])
            elif c.kind == "pair":
                shown.append(_decimal(values[high(c.source)], c.type.scale))
            else:
                shown.append(values[c.source])
        found[tuple(shown)] += copies
    return found
