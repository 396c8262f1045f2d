"""Running a random case: the engine step by step beside DuckDB, which computes every result anew.

After every batch: invariants, count, distinct count, the enumerated rows, and tests of rows that are
there and that are not. A batch that must be refused is tried first and must leave no trace. At the end
everything is deleted, which must give all rows back, and the same history again must need no more memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.plan.lower import program_of
from dynq_cli.spec.model import Relation, Spec
from dynq_cli.values.convert import arrow_type
from tests.engine.random_history import Bad, Batch, Change, Row, value_of
from tests.engine.random_queries import Case, Drawn

MOST_ROWS = 3000
Rows = Counter[Row]


class Mismatch(AssertionError):
    """The engine and DuckDB, or the engine and its own promises, disagree."""


def plain(value: Any) -> Any:
    """Values as they compare: one NaN, one zero, and no last digits, which depend on the order of a sum."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.12g}") + 0.0
    return value


def as_table(relation: Relation, changes: Iterable[Change], bad: Bad = "") -> pa.Table:
    """Changes of one relation as a change log; what `bad` names is wrong with the last of them."""
    these = [c for c in changes if c.relation == relation.name]
    kinds: list[str] = [c.kind for c in these]
    counts = [c.copies for c in these]
    if these and bad == "kind":
        kinds[-1] = "merge"
    if these and bad == "count":
        counts[-1] = 0
    table = {"_change_type": pa.array(kinds, pa.string())}
    if any(c != 1 for c in counts):
        table["_count"] = pa.array(counts, pa.int64())
    for i, column in enumerate(relation.columns):
        wide = bad == "range" and column.type.is_integer
        table[column.name] = pa.array([c.row[i] for c in these], pa.int64() if wide else arrow_type(column.type))
    return pa.table(table)


class Stored:
    """What the relations hold, in Python and in DuckDB."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rows: dict[str, Rows] = {r.name: Counter() for r in spec.relations}
        self.connection = duckdb.connect(":memory:", config={"threads": "1"})
        self.load(r.name for r in spec.relations)

    def applicable(self, changes: Iterable[Change]) -> list[Change]:
        """The changes that apply, one after the other; they are stored."""
        kept = []
        for c in changes:
            relation = self.spec.relation(c.relation)
            assert relation is not None
            rows = self.rows[c.relation]
            if c.kind in ("delete", "update_preimage"):
                if rows[c.row] < c.copies:
                    continue
                rows[c.row] -= c.copies
                rows += Counter()
            else:
                if relation.key and self._key(relation, c.row) in {self._key(relation, r) for r in rows}:
                    continue
                rows[c.row] += c.copies
            self.rows[c.relation] = +rows
            kept.append(c)
        return kept

    def _key(self, relation: Relation, row: Row) -> Row:
        return tuple(plain(v) for c, v in zip(relation.columns, row, strict=True) if c.name in relation.key)

    def load(self, relations: Iterable[str]) -> None:
        for name in set(relations):
            relation = self.spec.relation(name)
            assert relation is not None
            copies = [Change(name, "insert", r) for r, n in self.rows[name].items() for _ in range(n)]
            self.connection.register("loaded", as_table(relation, copies).drop_columns(["_change_type"]))
            self.connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM loaded')
            self.connection.unregister("loaded")

    def result(self, query: Drawn) -> Rows:
        found: Rows = Counter()
        for *row, copies in self.connection.execute(
            f"SELECT *, count(*) FROM ({query.oracle}) GROUP BY ALL"
        ).fetchall():
            found[tuple(map(plain, row))] += copies
        if query.plan.query.is_boolean:
            return Counter({(): 1}) if found else Counter()
        return Counter(dict.fromkeys(found, 1)) if query.plan.query.semantics == "set" else found

    def sizes(self, query: Drawn) -> tuple[int, int]:
        many = f"SELECT count(*) FROM ({query.oracle})"
        distinct = f"SELECT count(*) FROM (SELECT DISTINCT * FROM ({query.oracle}))"
        ((rows, different),) = self.connection.execute(f"SELECT ({many}), ({distinct})").fetchall()
        return rows, different


def enumerated(live: Views, query: Drawn, block: int = 65536) -> list[tuple[Row, int]]:
    """The rows in their order, with their copies."""
    return [(as_plain(row), copies) for row, copies in _given(live, query, block)]


def _given(live: Views, query: Drawn, block: int = 65536) -> list[tuple[Row, int]]:
    is_bag = query.plan.query.semantics == "bag"
    found = []
    for batch in live.enum(query.name, block):
        for row in batch.to_pylist():
            values = tuple(row.values())
            found.append((values[:-1], values[-1]) if is_bag else (values, 1))
    return found


def compare_order(found: list[tuple[Row, int]], stored: Stored, query: Drawn) -> None:
    """Rows stand in the order of DuckDB's ORDER BY, NULL where the order has it."""
    keys = [f"{i + 1} {'DESC' if d else 'ASC'} NULLS {'FIRST' if first else 'LAST'}" for i, d, first in query.order]
    rows = stored.connection.execute(f"SELECT * FROM ({query.oracle}) ORDER BY {', '.join(keys)}").fetchall()
    in_order = list(dict.fromkeys(tuple(map(plain, row)) for row in rows))
    expect(query, "order", [row for row, _ in found], in_order)


def as_plain(row: Row) -> Row:
    return tuple(map(plain, row))


def compare(live: Views, stored: Stored, query: Drawn, chance: Random) -> None:
    rows, distinct = live.count(query.name)
    if distinct > MOST_ROWS:
        expect(query, "count", (rows, distinct), stored.sizes(query))
        return
    wanted = stored.result(query)
    expect(query, "count", (rows, distinct), (wanted.total(), len(wanted)))
    given = _given(live, query)
    found = [(as_plain(row), copies) for row, copies in given]
    expect(query, "rows", sorted(found, key=repr), sorted(wanted.items(), key=repr))
    if query.plan.order:
        compare_order(found, stored, query)
    names = [c.name for c in query.plan.query.columns]
    present = [row for row, _ in chance.sample(given, min(3, len(given)))]
    for row in [*present, *_absent(query, stored.spec, present, chance)]:
        asked = dict(zip(names, row, strict=True))
        expect(query, f"test of {row}", live.test(query.name, asked), wanted[as_plain(row)])


def _absent(query: Drawn, spec: Spec, present: list[Row], chance: Random) -> list[Row]:
    """Rows beside those that are there, one value changed, and one of values that no row need have."""
    columns = query.plan.query.columns
    if not columns:
        return []
    near = []
    for row in present:
        at = chance.randrange(len(columns))
        near.append((*row[:at], _other(columns[at], chance), *row[at + 1 :]))
    return [*near, tuple(_other(c, chance) for c in columns)]


def _other(column: Any, chance: Random) -> Any:
    value = value_of(chance, column)
    return round(value) if value is not None and str(column.type) == "decimal(38,0)" else value


def expect(query: Drawn, what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Mismatch(f"{what} of {query.name}\n  {query.text}\n  found  {found}\n  wanted {wanted}")


# An engine is made again and again for one case, and planning takes longer than running it.
_steps = lru_cache(256)(program_of)


def make_live(case: Case) -> Views:
    return Views(case.spec, {q.name: q.program or _steps(q.plan.query, case.spec) for q in case.queries})


def apply(live: Views, case: Case, batch: Batch, changes: list[Change]) -> None:
    live.apply({r.name: as_table(r, changes) for r in case.spec.relations if r.name in batch.relations})


def refuse(live: Views, case: Case, batch: Batch) -> None:
    """A batch that cannot be applied is refused, and everything is as before, order included."""
    before = [(live.count(q.name), enumerated(live, q, 512)[:100]) for q in case.queries]
    last = batch.rejected[-1].relation
    named = dict.fromkeys(c.relation for c in batch.rejected)
    tables = {r.name: as_table(r, batch.rejected, batch.bad if r.name == last else "") for r in case.spec.relations}
    try:
        live.apply({name: tables[name] for name in named})
    except RejectedError:
        live._check()
        after = [(live.count(q.name), enumerated(live, q, 512)[:100]) for q in case.queries]
        if before != after:
            raise Mismatch(f"a refused batch ({batch.bad}) changed something") from None
        return
    raise Mismatch(f"a batch was not refused: {batch.bad}\n  {batch.rejected}")


def run(case: Case) -> None:
    """Raises Mismatch, or whatever else goes wrong."""
    live, untried, stored = make_live(case), make_live(case), Stored(case.spec)
    chance = Random(case.seed)
    start = live.engine.arena.tables["live"].copy()
    for batch in case.history:
        if batch.bad:
            refuse(live, case, batch)
        changes = stored.applicable(batch.changes)
        stored.load(batch.relations)
        for each in (live, untried):
            apply(each, case, batch, changes)
        live._check()
        for q in case.queries:
            compare(live, stored, q, chance)
    for q in case.queries:
        expect(q, "order without refused batches", enumerated(untried, q), enumerated(live, q))
    # Which rows are free decides where a table grows, so the second time may take a little more; the third may not.
    needed: list[int] = []
    while len(needed) < 2 or (needed[-1] != needed[-2] and len(needed) < 3):
        _empty(live, case, stored)
        if (live.engine.arena.tables["live"] != start).any():
            raise Mismatch("rows are left after everything was deleted")
        needed.append(live.engine.arena.top)
        for batch in case.history:
            apply(live, case, batch, stored.applicable(batch.changes))
    if needed[-1] != needed[-2]:
        raise Mismatch(f"the same history again and again took {needed} words")


def _empty(live: Views, case: Case, stored: Stored) -> None:
    everything = [Change(name, "delete", r, n) for name, rows in stored.rows.items() for r, n in rows.items()]
    stored.applicable(everything)
    stored.load(stored.rows)
    live.apply({r.name: as_table(r, everything) for r in case.spec.relations})
    live._check()
    for q in case.queries:
        compare(live, stored, q, Random(case.seed))


def failure(case: Case) -> str:
    """What goes wrong in a run; empty if nothing does."""
    try:
        run(case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def smaller(case: Case) -> Iterable[Case]:
    """Cases with one thing less, the largest cuts first."""
    for i in range(len(case.queries)) if len(case.queries) > 1 else ():
        yield replace(case, queries=case.queries[:i] + case.queries[i + 1 :])
    for i in range(len(case.history)):
        yield replace(case, history=case.history[:i] + case.history[i + 1 :])
    for i, batch in enumerate(case.history):
        options = [replace(batch, bad="", rejected=())] if batch.bad else []
        options += [
            replace(batch, changes=batch.changes[:j] + batch.changes[j + 1 :]) for j in range(len(batch.changes))
        ]
        for option in options:
            yield replace(case, history=(*case.history[:i], option, *case.history[i + 1 :]))


def minimise(case: Case, tries: int = 400) -> Case:
    """A case with fewer queries, batches and changes that goes wrong in the same way."""
    wrong = failure(case).split(":")[0]
    while True:
        for candidate in smaller(case):
            tries -= 1
            if tries < 0:
                return case
            if failure(candidate).split(":")[0] == wrong:
                case = candidate
                break
        else:
            return case


def described(case: Case) -> str:
    lines = [f"seed {case.seed}", *(str(r) for r in case.spec.relations)]
    for q in case.queries:
        ordered = f" order_by [{', '.join(map(str, q.order_by))}]" if q.order_by else ""
        lines.append(f"{q.name}: {q.language} {q.semantics or ''} {q.text}{ordered}")
    for batch in case.history:
        lines.append(f"batch of {', '.join(batch.relations)}")
        lines += [f"  refused ({batch.bad}): {c}" for c in batch.rejected]
        lines += [f"  {c}" for c in batch.changes]
    return "\n".join([*lines, failure(case)])
