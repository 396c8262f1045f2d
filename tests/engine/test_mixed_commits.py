"""Commits of mixed relations do what they do one by one: the same rows under the same ids, up to the first refused."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import commit_sequence, sequence_program
from dynq_cli.engine import engine as engine_module
from dynq_cli.engine.check import rows_of
from dynq_cli.engine.mixed_commits import MixedCommits
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.seeds import seeds

RELATIONS = """
version: 1
relations:
  R: {columns: {a: int64, b: int64}}
  S: {columns: {b: int64, c: int64, d: string?}, key: [b]}
  T: {columns: {c: int64, e: int64}}
"""
TREES = """
queries:
  joined: {sql: "SELECT R.a, R.b, S.c, S.d FROM R, S WHERE R.b = S.b AND S.d <> 'x'"}
  paths: {rule: "paths(x, y, z) :- R(x, y), R(y, z)", semantics: bag}
  chain: {sql: "SELECT a, R.b, T.c, e FROM R, S, T WHERE R.b = S.b AND S.c = T.c"}
  less: {rule: "less(a, b, e) :- R(a, b), T(b, e), a < e"}
  ranked: {sql: "SELECT b, c FROM S ORDER BY c DESC, b"}
"""
DERIVED = """
queries:
  sums: {sql: "SELECT c, sum(a) AS total, count(*) AS n, avg(a + c) AS mean FROM R, S WHERE R.b = S.b GROUP BY c"}
  most: {sql: "SELECT c, max(b) AS most, count(DISTINCT d) AS ds FROM S GROUP BY c"}
  places: {sql: "SELECT c, median(b) AS m, mode(b) AS o, sum(DISTINCT b) AS s, min(d) AS least FROM S GROUP BY c"}
  times: {sql: "SELECT c, product(b) AS p FROM S GROUP BY c"}
  having: {sql: "SELECT b, count(*) AS n FROM R GROUP BY b HAVING count(*) + 0 > 1"}
  of_counts: {sql: "SELECT n, count(*) AS many FROM (SELECT a, count(*) AS n FROM R GROUP BY a) GROUP BY n"}
  all: {sql: "SELECT count(*) AS n, sum(e) AS es FROM T"}
  joined_all: {sql: "SELECT count(*) AS n FROM R, S WHERE R.b = S.b"}
  once: {sql: "SELECT DISTINCT a, c FROM R, S WHERE R.b = S.b"}
  union: {sql: "SELECT b FROM R UNION SELECT c FROM T"}
  upper: {sql: "SELECT upper(d) AS u, sum(b) AS s FROM S WHERE c < 3 GROUP BY upper(d)"}
  real: {sql: "SELECT b, sum(a::DOUBLE / 4) AS s, bit_xor(a) AS x FROM R GROUP BY b"}
"""
# Some of the steps are taken commit by commit.
SINGLY = """
queries:
  pushed: {sql: "SELECT R.b, sum(a) AS total, avg(e) AS mean FROM R, S, T WHERE R.b = S.b AND S.c = T.c GROUP BY R.b"}
  without: {sql: "SELECT a FROM R EXCEPT SELECT e FROM T"}
  less: {sql: "SELECT R.a, T.e FROM R, T WHERE R.b = T.c AND R.a < T.e"}
  above: {sql: "SELECT a, b FROM R WHERE a >= (SELECT avg(e) FROM T)"}
  exists: {sql: "SELECT b, c FROM S WHERE EXISTS (SELECT * FROM R, T WHERE R.b = S.b AND R.a < T.e)"}
  ring: {sql: "SELECT count(*) AS n FROM R, T, R AS s WHERE R.b = T.c AND T.e = s.a AND s.b = R.a"}
  sums: {sql: "SELECT R.b, sum(a) AS total FROM R, S WHERE R.b = S.b GROUP BY R.b"}
"""
Change = tuple[str, str, tuple[Any, ...]]
COLUMNS = {"R": ("a", "b"), "S": ("b", "c", "d"), "T": ("c", "e")}


def fresh(queries: str) -> Views:
    spec = parse_spec(RELATIONS + queries, "spec")
    return Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})


def drawn_commits(rng: Random, many: int) -> list[list[Change]]:
    """Commits of one to three changes of any relations: inserts, deletes of what is there, upserts of S."""
    there: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
    commits: list[list[Change]] = []
    for _ in range(many):
        commit: list[Change] = []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            name = rng.choice("RST")
            rows = there[name]
            if rows and rng.random() < 0.4:
                commit.append((name, "delete", rows.pop(rng.randrange(len(rows)))))
            elif name == "S":
                row = (rng.randrange(8), rng.randrange(4), rng.choice(["x", "y", None]))
                old = [other for other in rows if other[0] == row[0]]
                rows[:] = [other for other in rows if other[0] != row[0]] + [row]
                commit.append((name, "update_postimage" if old or rng.random() < 0.3 else "insert", row))
            else:
                rows.append((rng.randrange(4), rng.randrange(4)))
                commit.append((name, "insert", rows[-1]))
        commits.append(commit)
    return commits


def tables_of(commits: list[list[Change]]) -> tuple[dict[str, pa.Table], dict[str, list[int]]]:
    """A table per relation with the changes of all commits, and where each commit ends in it."""
    tables, ends = {}, {}
    for name, columns in COLUMNS.items():
        mine = [change for commit in commits for change in commit if change[0] == name]
        types = {"d": pa.string()}
        made = {c: pa.array([row[i] for *_, row in mine], types.get(c, pa.int64())) for i, c in enumerate(columns)}
        tables[name] = pa.table({"_change_type": pa.array([kind for _, kind, _ in mine], pa.string()), **made})
        ends[name] = np.cumsum([sum(change[0] == name for change in commit) for commit in commits]).tolist()
    return tables, ends


def one_by_one(live: Views, commits: list[list[Change]]) -> int:
    """Apply commits one by one until one is refused; how many were applied.

    They are turned into codes together: the ids of strings are given out by table.
    """
    tables, ends = tables_of(commits)
    stops = {name: np.array(each, np.int64) for name, each in ends.items()}
    mixed = MixedCommits(live.changes(tables, stops), stops)
    for done in range(len(mixed)):
        try:
            live.take(mixed.part(done, done + 1))
        except RejectedError:
            return done
    return len(mixed)


def stored(live: Views) -> list[Any]:
    """The data of all tables: the record of every row by its id, and the ids that are free, in their order."""
    a, found = live.engine.arena, []
    for table in range(len(a.tables)):
        start, stride = int(a.tables["rows"][table]), int(a.tables["stride"][table])
        rows = [(r, a.words[start + r * stride : start + (r + 1) * stride].tobytes()) for r in rows_of(a, table)]
        free, row = [], int(a.tables["free"][table])
        while row >= 0:
            free.append(row)
            row = int(a.words[start + row * stride])
        found.append((int(a.tables["live"][table]), int(a.tables["used"][table]), rows, free))
    return found


def shown(live: Views) -> list[Any]:
    return [[row for batch in live.enum(q) for row in batch.to_pylist()] for q in live.queries]


def test_kernels_take_all_relations_whose_trees_do_not_read_what_is_derived_from_others() -> None:
    assert fresh(TREES).engine.in_sequence == fresh(DERIVED).engine.in_sequence == {"R", "S", "T"}
    assert fresh(SINGLY).engine.in_sequence == set()


@pytest.mark.parametrize("queries", [TREES, DERIVED, SINGLY], ids=["trees", "derived", "singly"])
@pytest.mark.parametrize("chunk", [3, 50, 8192])
def test_mixed_commits_are_stored_as_one_by_one(chunk: int, queries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(6):
        rng = Random(seed)
        commits = drawn_commits(rng, rng.randint(1, 60))
        singly = fresh(queries)
        assert one_by_one(singly, commits) == len(commits), f"seed {seed}"
        if chunk < 8192:
            # Deltas are read and passed on in small parts, too.
            monkeypatch.setattr(sequence_program, "BLOCK", 2)
            monkeypatch.setattr(commit_sequence, "ROWS", 4)
            monkeypatch.setattr(engine_module._Written, "most", chunk)
        monkeypatch.setattr(engine_module, "CHUNK", chunk)
        together = fresh(queries)
        together.apply_mixed(*tables_of(commits))
        monkeypatch.undo()
        together.engine._check()
        assert shown(together) == shown(singly), f"seed {seed}"
        assert stored(together) == stored(singly), f"seed {seed}"


@pytest.mark.parametrize("queries", [TREES, DERIVED], ids=["trees", "derived"])
@pytest.mark.parametrize("chunk", [2, 8192])
def test_the_first_refused_commit_stops_with_those_before_it(
    chunk: int, queries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds(6):
        rng = Random(seed)
        commits = drawn_commits(rng, 30)
        at = rng.randrange(30)
        bad: Change = rng.choice([("R", "delete", (9, 9)), ("T", "delete", (9, 9)), ("S", "delete", (99, 0, "y"))])
        commits[at].insert(rng.randrange(len(commits[at]) + 1), bad)
        singly, together = fresh(queries), fresh(queries)
        assert one_by_one(singly, commits) == at, f"seed {seed}"
        monkeypatch.setattr(engine_module, "CHUNK", chunk)
        tables, ends = tables_of(commits)
        row = tables[bad[0]].select(COLUMNS[bad[0]]).to_pylist().index(dict(zip(COLUMNS[bad[0]], bad[2], strict=True)))
        with pytest.raises(RejectedError, match=f"{bad[0]}: row {row + 1}.* deletes"):
            together.apply_mixed(tables, ends)
        monkeypatch.undo()
        together.engine._check()
        assert stored(together) == stored(singly), f"seed {seed}"
        rest = commits[at + 1 :]
        if one_by_one(singly, rest) == len(rest) and rest:
            together.apply_mixed(*tables_of(rest))
            assert stored(together) == stored(singly), f"seed {seed}"


def test_the_ends_of_all_tables_are_of_the_same_commits() -> None:
    live = fresh(TREES)
    row = pa.table({"a": [1], "b": [1]})
    for ends in ({"R": [1]}, {"R": [1], "T": [0, 1]}, {"R": [0], "T": [1]}):
        with pytest.raises(UsageError):
            live.apply_mixed({"R": row, "T": pa.table({"c": [1], "e": [1]})}, ends)
    assert live.count("paths") == (0, 0)


def test_commits_in_a_table_each_are_stored_as_one_by_one() -> None:
    for seed in seeds(4):
        rng = Random(seed)
        commits = drawn_commits(rng, 40)
        each = [{name: t for name, t in tables_of([commit])[0].items() if len(t)} for commit in commits]
        # Tables of one relation need not have the same columns.
        each = [{n: t.drop_columns("_change_type") if _only_inserts(t) else t for n, t in c.items()} for c in each]
        singly, together = fresh(DERIVED), fresh(DERIVED)
        for commit in each:
            singly.apply(commit)
        together.apply_each(each)
        together.engine._check()
        assert shown(together) == shown(singly), f"seed {seed}"


def _only_inserts(table: pa.Table) -> bool:
    return set(table["_change_type"].to_pylist()) == {"insert"}


@pytest.mark.parametrize("at", [0, 7])
def test_a_refused_table_names_its_own_row_and_those_before_it_are_applied(at: int) -> None:
    good = [{"R": pa.table({"a": [i], "b": [i]})} for i in range(9)]
    gone = {"R": pa.table({"_change_type": ["insert", "delete"], "a": [1, 50], "b": [1, 50]})}
    wrong = {"R": pa.table({"a": ["no number"], "b": ["1"]})}
    for bad, said in ((gone, "R: row 2.* deletes a row that is not there"), (wrong, "R: row 1, column a")):
        live = fresh(DERIVED)
        with pytest.raises(RejectedError, match=said):
            live.apply_each([*good[:at], bad, *good[at:]])
        live.engine._check()
        assert live.count("union") == (at, at)
