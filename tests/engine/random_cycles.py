"""Random histories of graphs, and queries with cycles over them: each is its own oracle in DuckDB.

Values are few and skewed, so that there are hubs, loops, copies and NULLs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Program
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Spec

Row = tuple[Any, ...]
Change = tuple[str, str, Row]
RELATIONS = """\
version: 1
relations:
  r: {columns: {a: int64, b: int64}}
  s: {columns: {b: int64, c: "int64?"}}
  t: {columns: {c: "int64?", a: int64}}
  e: {columns: {x: int64, y: "int64?", w: int64}}
  g: {columns: {x: string, y: string}}
  f: {columns: {c: int64, d: int64}}
  l: {columns: {p: int64, q: int64, o: int64}}
  k: {columns: {id: int64, x: int64, y: int64, p: "decimal(9,2)?"}, key: [id]}
  h: {columns: {x: int64, y: int64, w: "int32?", p: "decimal(9,2)"}}
queries:
"""
_RST = "r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
_CYCLIC = "e a, e b, e c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
_STRINGS = "g a, g b, g c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
_TRANSITIVE = "e a, e b, e c WHERE a.y = b.x AND b.y = c.y AND c.x = a.x"
_FOUR = "e a, e b, e c, e d WHERE a.y = b.x AND b.y = c.x AND c.y = d.x AND d.y = a.x"
_CLIQUE = (
    "e a, e b, e c, e d, e f, e h WHERE a.y = b.x AND b.y = c.x AND d.x = a.x AND d.y = b.y AND f.x = a.x"
    " AND f.y = c.y AND h.x = b.x AND h.y = c.y"
)
_LOOMIS = (
    "l a, l b, l c, l d WHERE b.p = a.q AND b.q = a.o AND c.p = b.q AND c.q = b.o AND c.o = a.p AND d.p = b.o"
    " AND d.q = a.p AND d.o = a.q"
)
QUERIES = {
    "count": f"SELECT count(*) AS n FROM {_RST}",
    "list_bag": f"SELECT r.a, r.b, s.c FROM {_RST}",
    "list_set": f"SELECT DISTINCT r.a, s.c FROM {_RST}",
    "exists_one": f"SELECT DISTINCT 1 AS one FROM {_RST}",
    "exists_set": f"SELECT DISTINCT 1 AS one FROM {_CYCLIC} AND a.w > 0",
    "exists_in": f"SELECT f.c, f.d FROM f WHERE EXISTS (SELECT 1 FROM {_RST})",
    "exists_not": f"SELECT f.c, f.d FROM f WHERE NOT EXISTS (SELECT 1 FROM {_RST})",
    "as_value": f"SELECT f.c, (SELECT count(*) FROM {_RST}) AS n FROM f",
    "filters": f"SELECT count(*) FILTER (WHERE a.w > 2) AS n, bool_or(b.w > 3) AS b FROM {_CYCLIC}",
    "over_groups": "SELECT sum(q.m) AS m, count(*) AS n"
    " FROM (SELECT x, y, max(w) AS m FROM e GROUP BY x, y) q, e b, e c WHERE q.y = b.x AND b.y = c.x AND c.y = q.x",
    "cyclic": f"SELECT count(*) AS n FROM {_CYCLIC}",
    "cyclic_rows": f"SELECT a.x, b.x AS y, c.x AS z FROM {_CYCLIC}",
    "strings": f"SELECT a.x, count(*) AS n FROM {_STRINGS} GROUP BY a.x",
    "filtered": f"SELECT count(*) AS n, sum(a.w) AS w FROM {_CYCLIC} AND a.w > 0 AND b.w <> 2",
    "sum_one": f"SELECT sum(a.w) AS w FROM {_CYCLIC}",
    "sum_all": f"SELECT sum(a.w * b.w + 2 * c.w - 3) AS w, count(*) AS n, avg(b.w) AS v FROM {_CYCLIC} AND c.w < 7",
    "sum_nulls": "SELECT sum(a.w) AS w, sum(b.w * c.p) AS p, count(b.w) AS n, avg(a.p * c.w) AS v FROM h a, h b, h c"
    " WHERE a.y = b.x AND b.y = c.x AND c.y = a.x",
    "sum_ends": f"SELECT sum(r.a * s.c) AS s, avg(t.a) AS v, sum(r.b * r.b) AS d FROM {_RST}",
    "sum_having": f"SELECT sum(a.w) AS w FROM {_CYCLIC} HAVING count(*) > 3",
    "sum_mixed": "SELECT sum(a.w) AS w, sum(r.a) AS a FROM e a, r, h b WHERE a.y = r.a AND r.b = b.x AND b.y = a.x",
    "per_vertex": f"SELECT a.x, count(*) AS n, min(b.w) AS l, max(c.w) AS m FROM {_CYCLIC} GROUP BY a.x",
    "sums": f"SELECT a.x, sum(a.w * b.w) AS s, avg(c.w) AS v FROM {_CYCLIC} GROUP BY a.x",
    "transitive": f"SELECT count(*) AS n FROM {_TRANSITIVE}",
    "ordered": f"SELECT a.x, a.y, b.y AS z FROM {_TRANSITIVE} AND a.x < a.y AND a.y < b.y",
    "unequal": f"SELECT a.x, count(*) AS n FROM {_TRANSITIVE} AND a.x <> b.y GROUP BY a.x",
    "two_and_one": "SELECT count(*) AS n FROM e a, e b, f WHERE a.y = b.x AND b.y = f.c AND f.d = a.x",
    "four": f"SELECT a.x, count(*) AS n FROM {_FOUR} GROUP BY a.x",
    "clique": f"SELECT count(*) AS n FROM {_CLIQUE}",
    "loomis": f"SELECT count(*) AS n FROM {_LOOMIS}",
    "fringe": f"SELECT count(*) AS n, sum(f.d) AS d FROM f, {_RST} AND f.c = s.c",
    "bow_tie": "SELECT a.x, count(*) AS n FROM e a, e b, e c, e d, e h, e i WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
    " AND d.x = a.x AND d.y = h.x AND h.y = i.x AND i.y = d.x GROUP BY a.x",
    "keyed": "SELECT a.id, c.p FROM k a, e b, k c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x",
    "closed_not": "SELECT a.x, a.y, a.w FROM e a WHERE NOT EXISTS (SELECT 1 FROM e b, e c WHERE a.y = b.x AND b.y = c.x"
    " AND c.y = a.x)",
    "closed_in": "SELECT s.c, g.x FROM s, g WHERE g.y > '2' AND EXISTS (SELECT 1 FROM t, r WHERE t.c = s.c"
    " AND t.a = r.a AND r.b = s.b AND r.a < 7)",
    "closed_set": "SELECT DISTINCT h.x FROM h WHERE h.w > 1 AND NOT EXISTS (SELECT 1 FROM e b, r WHERE h.y = b.y AND"
    " b.x = r.a AND r.b = h.x)",
    "not_exists": "SELECT f.c, f.d FROM f WHERE NOT EXISTS (SELECT 1 FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND"
    " t.a = r.a AND r.a = f.c)",
}


def spec_of(names: Sequence[str], relations: str = RELATIONS, more: str = "") -> Spec:
    return parse_spec(spec_text(names, relations, more), "spec.yaml")


def spec_text(names: Sequence[str], relations: str = RELATIONS, more: str = "") -> str:
    """A spec of some queries, each with options `more`."""
    return relations + "".join(f'  {name}: {{sql: "{QUERIES[name]}"{more}}}\n' for name in names)


def programs_of(spec: Spec) -> dict[str, Program]:
    return {name: program_of(query, spec) for name, query in compile_spec(spec).items()}


def random_commits(chance: Random, spec: Spec, many: int) -> Iterator[list[Change]]:
    """Commits that fit what is there; about as many deletes as inserts once there is something."""
    live: dict[str, list[Row]] = {r.name: [] for r in spec.relations}
    last = 0
    skew, grows = chance.choice([0.25, 0.4, 0.9]), chance.choice([0.3, 0.45, 0.55])
    for _ in range(many):
        made: list[Change] = []
        for relation in spec.relations:
            rows = live[relation.name]
            for _ in range(chance.choice([0, 0, 1, 2, 6, 12])):
                if rows and chance.random() < grows:
                    made.append((relation.name, "delete", rows.pop(chance.randrange(len(rows)))))
                    continue
                row: list[Any] = []
                for column in relation.columns:
                    value = min(int(chance.expovariate(skew)), 9)
                    value *= -1 if column.name == "w" and chance.random() < 0.3 else 1
                    if column.name in relation.key:
                        last += 1
                        row.append(last)
                    elif column.nullable and chance.random() < 0.1:
                        row.append(None)
                    else:
                        row.append(str(value) if column.type.name == "string" else value)
                made.append((relation.name, "insert", tuple(row)))
                rows.append(tuple(row))
        yield made


def tables_of(spec: Spec, commit: Sequence[Change]) -> dict[str, pa.Table]:
    made = {}
    for relation in spec.relations:
        changes = [(kind, row) for name, kind, row in commit if name == relation.name]
        if changes:
            columns = {c.name: [row[i] for _, row in changes] for i, c in enumerate(relation.columns)}
            made[relation.name] = pa.table({"_change_type": [kind for kind, _ in changes], **columns})
    return made


class Oracle:
    """The same relations in DuckDB."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._connection = duckdb.connect()
        self._live: dict[str, Counter[Row]] = {r.name: Counter() for r in spec.relations}
        for r in spec.relations:
            columns = ", ".join(f"{c.name} {c.type.sql}" for c in r.columns)
            self._connection.execute(f"CREATE TABLE {r.name} ({columns})")

    def apply(self, commit: Sequence[Change]) -> None:
        for name in {name for name, _, _ in commit}:
            for other, kind, row in commit:
                if other == name:
                    self._live[name][row] += 1 if kind == "insert" else -1
            self._connection.execute(f"DELETE FROM {name}")
            rows = list(self._live[name].elements())
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)

    def rows(self, query: str) -> Counter[Row]:
        return Counter(self._connection.execute(QUERIES[query]).fetchall())


def counted(rows: Sequence[Mapping[str, Any]]) -> Counter[Row]:
    """Rows of `enum`, with their copies where they have some."""
    found: Counter[Row] = Counter()
    for row in rows:
        found[tuple(v for name, v in row.items() if name != "_count")] += row.get("_count", 1)
    return found
