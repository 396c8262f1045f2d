"""A state of shards answers as the state without shards does, whatever the spec, the history and the number of shards.

Each history applies the same change logs to both, some of which are refused, and compares every way of reading after
every commit, across restarts.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.errors import DamagedError, DynqError, RejectedError
from dynq_cli.session.apply_logs import Options, apply_logs, make
from dynq_cli.storage.facts import facts_of
from dynq_cli.storage.integrity import check
from dynq_cli.storage.prune import prune
from dynq_cli.storage.shards import writer as writer_of_shards
from dynq_cli.storage.shards.members import keep_before
from dynq_cli.storage.shards.state import ShardedState
from dynq_cli.storage.state import State
from dynq_cli.storage.writer import Origin
from tests.seeds import FUZZ, seeds
from tests.storage.dying import STEPS, Died, dying_after

RELATIONS = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64?}, changes: often}
  S: {columns: {y: int32, z: int64?, f: float64?}}
  T: {columns: {z: int64, s: string?}, changes: rare}
  K: {columns: {k: int64, y: int64, v: 'decimal(9,2)?', s: string}, key: [k]}
  P: {columns: {a: string, b: int64, d: date?}, key: [a, b]}
  U: {columns: {u: int64, t: string?}}
queries:
"""
ORDERED = {
    "ordered": ["x", "z"],
    "ordered_text": ["s", "k"],
    "ordered_groups": ["n", "y"],
    "ordered_copies": ["f", "y"],
}
QUERIES = {
    "star": '{rule: "star(x, y, z) :- R(x, y), S(y, z, f)"}',
    "ends": '{rule: "ends(x, z) :- R(x, y), S(y, z, f)"}',
    "chain": '{sql: "SELECT R.x, T.s FROM R, S, T WHERE R.y = S.y AND S.z = T.z"}',
    "copies": '{sql: "SELECT S.z FROM R, S WHERE R.y = S.y"}',
    "outer": '{sql: "SELECT R.x, S.z, K.s FROM R LEFT JOIN S ON R.y = S.y LEFT JOIN K ON K.k = R.x"}',
    "groups": '{sql: "SELECT y, count(*) AS n, sum(x) AS total, avg(x) AS mean FROM R GROUP BY y HAVING count(*) > 1"}',
    "parts": '{sql: "SELECT T.s, count(*) AS n, sum(S.z) AS total, min(f) AS least, max(f) AS most '
    'FROM S, T WHERE S.z = T.z GROUP BY T.s"}',
    "total": '{sql: "SELECT count(*) AS n, sum(v) AS total, max(s) AS last FROM K, R WHERE K.y = R.y"}',
    "exists": '{sql: "SELECT x, y FROM R WHERE EXISTS (SELECT 1 FROM S WHERE S.y = R.y) AND x NOT IN '
    '(SELECT z FROM T)"}',
    "boolean": '{rule: "boolean() :- R(x, y), S(y, z, f), x < z"}',
    "less": '{rule: "less(x, z) :- R(x, y), S(y, z, f), x < z"}',
    "union": '{rule: ["union(x) :- R(x, y), S(y, z, f)", "union(z) :- T(z, s)"]}',
    "self": '{rule: "self(a, b, c) :- R(a, b), R(b, c)"}',
    "window": '{sql: "SELECT x, y, row_number() OVER (PARTITION BY y ORDER BY x) AS place FROM R"}',
    "first": '{sql: "SELECT x, y FROM R ORDER BY x, y LIMIT 3"}',
    "ordered": '{rule: "ordered(x, z) :- R(x, y), S(y, z, f)", order_by: [x desc, z]}',
    "ordered_text": '{sql: "SELECT k, s, v FROM K", order_by: [s, k desc]}',
    "ordered_groups": '{sql: "SELECT y, count(*) AS n FROM S GROUP BY y", order_by: [n desc, y]}',
    "ordered_copies": '{sql: "SELECT f, y FROM S", order_by: [f, y]}',
    "keyed": '{sql: "SELECT K.k, P.b, P.d FROM K, P WHERE K.s = P.a"}',
    "tested": '{rule: "tested(x, y) :- R(x, y), S(y, z, f)", keep: test}',
    "rows": '{rule: "rows(x, y) :- R(x, y), S(y, z, f)", keep: rows}',
    "named": '{sql: "SELECT g.n, R.x FROM groups g, R WHERE g.y = R.y"}',
}
COLUMNS = {
    "R": {"x": pa.int64(), "y": pa.int64()},
    "S": {"y": pa.int32(), "z": pa.int64(), "f": pa.float64()},
    "T": {"z": pa.int64(), "s": pa.string()},
    "K": {"k": pa.int64(), "y": pa.int64(), "v": pa.decimal128(9, 2), "s": pa.string()},
    "P": {"a": pa.string(), "b": pa.int64(), "d": pa.date32()},
    "U": {"u": pa.int64(), "t": pa.string()},
}
NULLABLE = {("R", "y"), ("S", "z"), ("S", "f"), ("T", "s"), ("K", "v"), ("P", "d"), ("U", "t")}
KEYS = {"K": ("k",), "P": ("a", "b")}
Row = dict[str, Any]


def value_of(random: Random, relation: str, column: str, kind: pa.DataType) -> Any:
    if (relation, column) in NULLABLE and random.random() < 0.15:
        return None
    number = random.randrange(6)
    if kind == pa.string():
        return random.choice(["", "a", "b", "Zoë", "ab"])
    if kind == pa.float64():
        return random.choice([0.5, -0.0, 0.0, 2.25, float("nan"), float("inf")])
    if kind == pa.date32():
        return number
    return pa.scalar(f"{number}.25").cast(kind).as_py() if pa.types.is_decimal(kind) else number


class History:
    """Change logs of random relations; some are wrong."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rows: dict[str, list[Row]] = {name: [] for name in COLUMNS}

    def log(self, relation: str) -> tuple[pa.Table, bool]:
        """A log, and whether its rows stand in the relation if it is applied."""
        random, kinds = self.random, COLUMNS[relation]
        changes: list[Row] = []
        rows = [dict(row) for row in self.rows[relation]]
        has_commits = random.random() < 0.4
        for number in range(random.randrange(1, 12)):
            at = {"_commit_version": number // 3} if has_commits else {}
            if rows and random.random() < 0.35:
                gone = rows.pop(random.randrange(len(rows)))
                if random.random() < 0.5:
                    changes.append({"_change_type": "delete", **gone, **at})
                    continue
                made = {name: value_of(random, relation, name, kind) for name, kind in kinds.items()}
                if random.random() < 0.5:
                    made |= {name: gone[name] for name in KEYS.get(relation, ())}
                if random.random() < 0.95:
                    changes.append({"_change_type": "update_preimage", **gone, **at})
                changes.append({"_change_type": "update_postimage", **made, **at})
                rows.append(made)
                continue
            made = {name: value_of(random, relation, name, kind) for name, kind in kinds.items()}
            key = KEYS.get(relation)
            if key and any(all(row[k] == made[k] for k in key) for row in rows) and random.random() < 0.97:
                continue
            if not random.randrange(60):
                changes.append({"_change_type": "delete", **made, **at})
            else:
                rows.append(made)
                changes.append({"_change_type": "insert", **made, **at})
        schema = pa.schema(
            [("_change_type", pa.string()), *kinds.items(), *([("_commit_version", pa.int64())] if has_commits else [])]
        )
        return pa.Table.from_pylist(changes, schema=schema), bool(changes)


def told(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [
        tuple("NaN" if v != v else v for v in row)
        for batch in batches
        for row in (
            zip(*(c.to_pylist() for c in batch.columns), strict=True) if batch.columns else [()] * batch.num_rows
        )
    ]


def refused(call: Any) -> Any:
    """What a call returns, or the first line of what it refuses."""
    try:
        return call()
    except RejectedError as error:
        return str(error).split("\n")[0]


def compare(random: Random, one: State, other: State, names: list[str]) -> None:
    """Compare every way of reading."""
    assert one.version == other.version
    for name in names:
        if name == "tested":
            rows = [{"x": random.randrange(6), "y": random.randrange(6)} for _ in range(5)]
            assert [one.test(r, name) for r in rows] == [other.test(r, name) for r in rows]
            table = pa.Table.from_pylist(rows)
            assert one.test_rows(table, name).tolist() == other.test_rows(table, name).tolist()
            continue
        expected, found = told(one.enum(name)), told(other.enum(name, block=random.choice([2, 65536])))
        assert Counter(expected) == Counter(found), name
        assert one.counts(name) == other.counts(name), name
        assert one.count(name) == other.count(name)
        for since in (None, random.randint(0, one.version)):
            was, now = one.diff(name, since), other.diff(name, since)
            assert (was.since, was.until, was.schema) == (now.since, now.until, now.schema)
            assert Counter(told(was.batches)) == Counter(told(now.batches)), (name, since)
        at = random.randint(0, one.version)
        assert Counter(told(one.enum(name, at=at))) == Counter(told(other.enum(name, at=at)))
        assert one.counts(name, at) == other.counts(name, at)
        schema = one.schema(name)
        assert schema == other.schema(name)
        columns = [n for n in schema.names if n != "_count"]
        if not columns or name == "rows":
            continue
        total = one.count(name)
        if name in ORDERED:
            assert expected == found, name
            assert told(one.page(name, offset=total // 2, limit=3)) == told(
                other.page(name, offset=total // 2, limit=3)
            )
            positions = [random.randint(1, total) for _ in range(3)] if total else []
            assert told(one.jth(positions, name)) == told(other.jth(positions, name)), name
            seed = random.randrange(100)
            assert told(one.sample(min(3, total), name, seed)) == told(other.sample(min(3, total), name, seed))
        elif total:
            expanded = told(dynq_expanded(other, name))
            j = random.randint(1, total)
            assert told(other.jth([j], name)) == [expanded[j - 1]], name
            assert told(other.page(name, offset=j - 1, limit=4)) == expanded[j - 1 : j + 3], name
        for row in random.sample(next(iter(one.enum(name))).to_pylist(), 1) if total else []:
            values = {n: row[n] for n in columns}
            assert one.test(values, name) == other.test(values, name) > 0
            few = dict(random.sample(sorted(values.items()), 1))
            assert Counter(told(one.where(few, name))) == Counter(told(other.where(few, name)))
            rank = other.rank(values, name)
            assert told(other.jth([rank], name)) == [tuple("NaN" if v != v else v for v in values.values())]
            if name in ORDERED:
                assert one.rank(values, name) == rank
                for where in ("after", "before"):
                    pages = [told(state.page(name, **{where: values}, limit=3)) for state in (one, other)]
                    assert pages[0] == pages[1]
    for relation in COLUMNS:
        assert Counter(told(one.dump(relation))) == Counter(told(other.dump(relation))), relation


def dynq_expanded(state: State, name: str) -> Iterator[pa.RecordBatch]:
    from dynq_cli.io.results.multiplicity import expand

    return expand(state.enum(name), state.schema(name))


def spec_of(random: Random) -> tuple[str, list[str]]:
    chosen = random.sample(sorted(QUERIES), random.randint(1, 4))
    if "named" in chosen and "groups" not in chosen:
        chosen.append("groups")
    return RELATIONS + "".join(f"  {name}: {QUERIES[name]}\n" for name in chosen), chosen


@pytest.mark.parametrize("seed", seeds(8))
def test_shards_answer_as_one_state(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    text, names = spec_of(random)
    (tmp_path / "spec.yaml").write_text(text)
    history = History(random)
    loads = []
    if random.random() < 0.5:
        table, _ = history.log("R")
        rows = [row for row in table.to_pylist() if row["_change_type"] == "insert"]
        pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(COLUMNS["R"].items()))), tmp_path / "R.parquet")
        history.rows["R"] = [{n: row[n] for n in COLUMNS["R"]} for row in rows]
        loads = [("R", str(tmp_path / "R.parquet"))]
    places = tmp_path / "one", tmp_path / "other"
    shards = random.choice([1, 2, 3, 4, 7])
    make(tmp_path / "spec.yaml", places[0], loads).close()
    make(tmp_path / "spec.yaml", places[1], loads, shards=shards).close()
    with ExitStack() as stack:
        states = [stack.enter_context(dynq_cli.open(place)) for place in places]
        assert isinstance(states[1], ShardedState)
        compare(random, states[0], states[1], names)
        for number in range(random.randint(2, 5)):
            logs: list[tuple[str, str]] = []
            for part in range(random.choice([1, 1, 2])):
                relation = random.choice(sorted(COLUMNS))
                table, is_log = history.log(relation)
                if is_log and relation not in {log[0] for log in logs}:
                    path = tmp_path / f"{relation}.{number}.{part}.parquet"
                    pq.write_table(table, path, row_group_size=random.choice([3, 1000]))
                    logs.append((relation, str(path)))
            options = Options(
                atomic=random.random() < 0.3, skip_missing_deletes=len(logs) == 1 and random.random() < 0.2
            )
            if random.random() < 0.2:
                options = Options(dry_run=True)
            outcomes = [refused(partial(apply_logs, state, [path for _, path in logs], options)) for state in states]
            assert outcomes[0] == outcomes[1]
            for relation in COLUMNS:
                history.rows[relation] = [
                    {n: row[n] for n in COLUMNS[relation]}
                    for row in (r for batch in states[0].dump(relation) for r in batch.to_pylist())
                    for _ in range(row.get("_count", 1))
                ]
            if random.random() < 0.3:
                for i, place in enumerate(places):
                    states[i].close()
                    states[i] = stack.enter_context(dynq_cli.open(place))
            compare(random, states[0], states[1], names)


KILLED = RELATIONS + "".join(f"  {name}: {QUERIES[name]}\n" for name in ("star", "copies", "keyed", "self"))


SOME = pa.table({"y": pa.array(range(20), pa.int32()), "z": range(20), "f": pa.nulls(20, pa.float64())})


def test_a_commit_killed_at_any_step_is_before_or_after_in_all_shards(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(KILLED)
    make(tmp_path / "spec.yaml", tmp_path / "made", shards=3).close()
    tables = [
        {"R": pa.table({"x": range(20), "y": range(20)}), "S": SOME},
        {"R": pa.table({"_change_type": ["delete"] * 9, "x": range(9), "y": range(9)})},
    ]
    with dynq_cli.open(tmp_path / "made") as state:
        state.apply(tables[0])
    random, outcomes, steps = Random(1), set[int](), 0
    while True:
        place = tmp_path / "tried"
        shutil.copytree(tmp_path / "made", place)
        with pytest.MonkeyPatch.context() as patch:
            dying_after(patch, steps, (*STEPS, "link"))
            try:
                with dynq_cli.open(place) as state:
                    state.apply(tables[1])
                is_done = True
            except Died:
                is_done = False
        with dynq_cli.open(place) as state:
            outcomes.add(state.version)
            assert state.version in (1, 2)
            assert state.count("star") == (20 if state.version == 1 else 11)
            assert all(state.count(name) == sum(1 for _ in told(state.enum(name))) for name in ("star", "copies"))
            if state.version == 1:
                assert state.apply(tables[1]) == 2
            assert state.count("star") == 11
            assert Counter(told(state.diff("star", 1).batches)) == Counter((x, x, x, "delete") for x in range(9))
        assert check(place, read_data=True)
        shutil.rmtree(place)
        if is_done:
            break
        steps += random.randint(1, int(8 / FUZZ) or 1)
    assert outcomes == {1, 2}


def test_a_reader_waits_for_no_killed_writer_and_names_a_damaged_shard(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(KILLED)
    make(tmp_path / "spec.yaml", tmp_path / "state", shards=2).close()
    shard = tmp_path / "state" / "shards" / "a-1"
    keep_before(shard)
    with dynq_cli.open(shard) as ahead, ahead.writing() as writer:
        writer.commit(Origin(), whole=True)
    with dynq_cli.open(tmp_path / "state") as state:
        assert state.count("star") == 0
    assert dynq_cli.open(shard).version == 0
    content = (shard / "CURRENT").read_bytes()
    (shard / "CURRENT").write_bytes(content[:-3] + b"xxx")
    with pytest.raises(DamagedError, match=r"shards/a-1/CURRENT"), dynq_cli.open(tmp_path / "state") as state:
        state.count("star")
    with pytest.raises(DamagedError, match=r"shards/a-1/CURRENT"):
        check(tmp_path / "state")


def test_a_version_that_is_taken_back_is_left_by_all_who_have_read_shards_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.yaml").write_text(KILLED)
    state = make(tmp_path / "spec.yaml", tmp_path / "state", shards=2)
    reader = dynq_cli.open(tmp_path / "state")
    assert isinstance(reader, ShardedState)
    state.apply({"R": pa.table({"x": range(20), "y": range(20)}), "S": SOME})
    assert Counter(told(state.enum("star"))) == Counter(told(reader.enum("star")))

    def failing(*_: object) -> None:
        for shard in range(2):  # as a reader does that comes between the two steps of a commit
            reader._states["a", shard].current()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer_of_shards, "write_shards", failing)
        with pytest.raises(DynqError, match="it is at version 1"):
            state.apply(pa.table({"_change_type": ["delete"] * 9, "x": range(9), "y": range(9)}), "R")
    for one in (state, reader):
        assert one.version == 1
        assert one.count("star") == len(list(told(one.enum("star")))) == 20
    assert state.apply(pa.table({"_change_type": ["delete"] * 4, "x": range(4), "y": range(4)}), "R") == 2
    for one in (state, reader):
        assert one.count("star") == len(list(told(one.enum("star")))) == 16
        assert Counter(told(one.diff("star", 1).batches)) == Counter((x, x, x, "delete") for x in range(4))
        one.close()
    assert check(tmp_path / "state", read_data=True)


def test_marks_versions_and_prune_hold_over_all_shards(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(KILLED)
    make(tmp_path / "spec.yaml", tmp_path / "state", shards=3).close()
    with dynq_cli.open(tmp_path / "state") as state:
        for x in range(3):
            state.apply(pa.table({"x": [x], "y": [x]}), "R")
        assert state.mark("here", 1) == 1
        prune(tmp_path / "state")
        assert state.marks == {"here": 1}
        assert Counter(told(state.dump("R", at="here"))) == Counter([(0, 0, 1)])
        assert state.unmark("here") == 1
        with pytest.raises(RejectedError, match="there is no mark here"):
            state.unmark("here")
        prune(tmp_path / "state")
        with pytest.raises(RejectedError, match="not kept any more"):
            state.diff("star", 0)
        with pytest.raises(RejectedError, match="row 2"):
            state.apply(pa.table({"_change_type": ["insert", "delete"], "x": [9, 8], "y": [9, 8]}), "R")
        assert state.version == 3
        facts = facts_of(tmp_path / "state")
        assert (facts.version, facts.tables and facts.tables.relations["R"].rows) == (3, 3)
