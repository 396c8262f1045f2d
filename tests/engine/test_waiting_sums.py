"""Single changes of inequality joins whose readers wait: the count after each is DuckDB's, and no reader is touched.

Relations are compared by `<` and its kin, with offsets, in groups of no, one or two joined columns, with NULLs,
duplicates and equal values; rows come and go one by one until groups are empty, and come again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import layout
from dynq_cli.engine.arena_snapshot import parts_of
from dynq_cli.engine.ranked import Ranked
from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.engine.test_enumeration import Counted
from tests.engine.test_order import SMALL
from tests.seeds import seeds

ROOT = Path(__file__).parents[2]
Row = tuple[Any, ...]
KINDS = ("int64", "int64", "int32", "string", "date", "decimal(9,2)", "float64")
OFFSETS = {"int64": ("", "+ 2", "- 1"), "int32": ("", "+ 1"), "decimal(9,2)": ("", "- 0.5"), "date": ("",)}
STORED = {"int64": "BIGINT", "int32": "INTEGER", "string": "VARCHAR", "float64": "DOUBLE"}
WIDTHS = {"int64": "5", "int32": "4", "decimal(9,2)": "2.5", "date": "INTERVAL '2 days'"}
SIZES = (128, 1024)


def made(relations: str, query: str, semantics: str) -> Views:
    kept = f", semantics: {semantics}" if semantics else ""
    text = f'version: 1\nrelations:\n{relations}queries:\n  q: {{sql: "{query}"{kept}}}\n'
    spec = parse_spec(text, "spec.yaml")
    return Views(spec, {name: plan_query(q, spec) for name, q in compile_spec(spec).items()})


def waits(live: Views) -> bool:
    return bool((live.layout.nodes["waiting"] >= 0).any())


class History:
    """A query over R(k…, z, b) and S(k…, z, b), and single changes of both."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.kind = chance.choice(KINDS)
        self.keys = [f"k{i}" for i in range(chance.choice([0, 0, 1, 1, 2]))]
        op = chance.choice(["<", "<=", ">", ">="])
        offset = chance.choice(OFFSETS.get(self.kind, ("",)))
        equal = "".join(f" AND R.{k} = S.{k}" for k in self.keys)
        self.semantics = chance.choice(["bag", "set"])
        columns = ["S.z AS sz", "R.z AS rz", *(f"R.{k}" for k in self.keys), "R.b AS rb", "S.b AS sb"]
        body = f"FROM R, S WHERE R.z {op} S.z {offset}{equal}"
        self.form = chance.choice(["rows", "rows", "rows", "count", "total", "groups"])
        if self.form != "rows" and self.kind in WIDTHS and chance.random() < 0.5:
            # Nobody goes through readers: those of a window wait, too.
            body += f" AND S.z {op} R.z {'+' if op in ('<', '<=') else '-'} {WIDTHS[self.kind]}"
        self.select = f"SELECT {', '.join(columns)} {body}"
        if self.form == "count":
            self.select, self.semantics = f"SELECT 1 AS one {body}", "bag"
        elif self.form == "total":
            self.select = f"SELECT count(*) AS n {body}"
        elif self.form == "groups":
            # Readers of one group of R are in one group of the result only by what is equal.
            by = self.keys[0] if self.keys else "b"
            self.select = f"SELECT S.{by}, count(*) AS n {body} GROUP BY S.{by}"
        kinds = {**dict.fromkeys(self.keys, "int64"), "z": f"{self.kind}?", "b": "int64"}
        said = ", ".join(f"{name}: '{kind}'" for name, kind in kinds.items())
        self.relations = "".join(f"  {r}: {{columns: {{{said}}}}}\n" for r in "RS")
        if self.form in ("total", "groups"):
            self.semantics = ""
        self.live = made(self.relations, self.select, self.semantics)
        self.rows: dict[str, list[Row]] = {"R": [], "S": []}
        self.connection = duckdb.connect(":memory:")
        self.stored = {name: STORED.get(kind.strip("?"), kind.strip("?")) for name, kind in kinds.items()}
        for r in "RS":
            self.connection.execute(f"CREATE TABLE {r} ({', '.join(f'{n} {k}' for n, k in self.stored.items())})")

    def value(self) -> Any:
        n = self.chance.choice([None, *range(9), 4, 4])
        if n is None:
            return None
        match self.kind:
            case "string":
                return "abcdefghi"[n] * (1 + n % 2)
            case "date":
                return date(2026, 1, n + 1)
            case "decimal(9,2)":
                return Decimal(n) / 2
            case "float64":
                return [float("-inf"), -0.0, 0.0, 0.5, 1.0, 2.0, 1e300, float("inf"), float("nan")][n]
        return n

    def change(self, growing: bool) -> None:
        relation = self.chance.choice("RS")
        rows = self.rows[relation]
        comes = not rows or self.chance.random() < (0.7 if growing else 0.2)
        if comes:
            row = (*(self.chance.randrange(3) for _ in self.keys), self.value(), self.chance.randrange(2))
            rows.append(row)
        else:
            row = rows.pop(self.chance.randrange(len(rows)))
        base = self.live.base(relation).relation
        columns = {c.name: pa.array([v]) for c, v in zip(base.columns, row, strict=True)}
        self.live.apply({relation: pa.table({**columns, "_change_type": ["insert" if comes else "delete"]})})
        if comes:
            self.connection.execute(f"INSERT INTO {relation} VALUES ({', '.join('?' * len(row))})", row)
        else:
            same = " AND ".join(f"{c.name} IS NOT DISTINCT FROM ?::{self._type(c.name)}" for c in base.columns)
            self.connection.execute(
                f"DELETE FROM {relation} WHERE rowid = (SELECT min(rowid) FROM {relation} WHERE {same})", row
            )

    def _type(self, column: str) -> str:
        return self.stored[column]

    def check_count(self) -> None:
        if self.form in ("total", "groups"):
            self.check_rows(deep=False)
            return
        wanted = self.connection.execute(f"SELECT count(*) FROM ({self.select})").fetchone()
        distinct = self.connection.execute(f"SELECT count(*) FROM (SELECT DISTINCT * FROM ({self.select}))").fetchone()
        assert wanted is not None and distinct is not None
        rows = distinct[0] if self.semantics == "set" else wanted[0]
        assert self.live.count("q") == (rows, distinct[0])

    def check_rows(self, *, deep: bool = True) -> None:
        if deep:
            self.live._check()
        grouped = f"SELECT *, count(*) FROM ({self.select}) GROUP BY ALL"
        wanted = self.connection.execute(grouped).fetchall()
        found = [tuple(row.values()) for block in self.live.enum("q") for row in block.to_pylist()]
        if self.semantics != "bag":
            wanted = [row[:-1] for row in wanted]
        assert sorted(map(repr, map(plain, found))) == sorted(map(repr, map(plain, wanted)))

    def check_places(self) -> None:
        """Positions follow the enumeration, copies counted."""
        found = [row for block in self.live.enum("q") for row in block.to_pylist()]
        counts = [row.pop("_count", 1) for row in found]
        ranked, before = Ranked(self.live, "q"), 0
        for row, copies in zip(found, counts, strict=True):
            assert ranked.rank(row) == before + 1
            before += copies
        places = self.chance.sample(range(before), min(before, 5))
        expanded = [row for row, copies in zip(found, counts, strict=True) for _ in range(copies)]
        given = [row for block in ranked.jth([j + 1 for j in places]) for row in block.to_pylist()]
        for row in given:
            row.pop("_count", None)
        assert repr(given) == repr([expanded[j] for j in places])

    def restart(self) -> None:
        """Continue with views made from the arrays of these."""
        live = self.live
        arrays = {name: np.zeros(part.shape, part.dtype) for name, part in parts_of(live).items()}
        for name, part in parts_of(live).items():
            part.fill(arrays[name])
        opened = Views(live.spec, live.queries, arrays)
        assert opened.count("q") == live.count("q")
        self.live = opened


def plain(row: Row) -> Row:
    return tuple(v + 0.0 if isinstance(v, float) else v for v in row)


@pytest.mark.parametrize("seed", seeds(14))
def test_the_count_after_each_single_change_is_that_of_a_recomputation(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    history = History(seed)
    for n in range(70):
        history.change(growing=n % 35 < 22)
        history.check_count()
        if n % 14 == 13:
            history.check_rows()
            if history.form == "rows":
                history.check_places()
        if n % 28 == 27:
            history.restart()


def test_readers_of_most_histories_wait() -> None:
    drawn = [History(seed) for seed in range(40)]
    for form in ("rows", "count", "total", "groups"):
        waiting = [waits(h.live) for h in drawn if h.form == form and (h.keys or form != "groups")]
        assert len(waiting) > 2 and sum(waiting) > len(waiting) / 2, form


def pairs(there: dict[str, tuple[Any, Any]], *, keyed: bool) -> int:
    """How many pairs of rows with R.z < S.z there are; rows are given by columns, with their copies."""
    (r, r_copies), (s, s_copies) = there["R"], there["S"]
    meets = r[1][:, None] < s[1][None, :]
    if keyed:
        meets &= r[0][:, None] == s[0][None, :]
    return int((meets * r_copies[:, None] * s_copies[None, :]).sum())


@pytest.mark.parametrize("seed", seeds(4, first=500))
def test_many_rows_change_one_by_one_as_they_do_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees with several levels of blocks; groups of all sizes."""
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    rng, keyed = np.random.default_rng(seed), seed % 3 == 0
    equal = " AND R.k = S.k" if keyed else ""
    query = f"SELECT R.k AS rk, R.z AS rz, R.b AS rb, S.k, S.z, S.b FROM R, S WHERE R.z < S.z{equal}"
    relations = "".join(f"  {r}: {{columns: {{k: int64, z: int64, b: int64}}}}\n" for r in "RS")
    single, whole = made(relations, query, "bag"), made(relations, query, "bag")
    assert waits(single)
    there = {r: (rng.integers(0, [[4], [300], [3]], (3, 300)), np.zeros(300, np.int64)) for r in "RS"}
    for r in "RSSR":
        rows, copies = there[r]
        copies += 1
        given = pa.table(dict(zip("kzb", rows, strict=True)))
        single.apply_commits(r, given, range(1, len(given) + 1))
        whole.apply({r: given})
        assert single.count("q")[0] == whole.count("q")[0] == pairs(there, keyed=keyed)
    for r in "RS":
        rows, copies = there[r]
        goes = rng.random(300) < 0.9
        copies -= goes
        gone = pa.table({**dict(zip("kzb", rows[:, goes], strict=True)), "_change_type": ["delete"] * int(goes.sum())})
        single.apply_commits(r, gone, range(1, len(gone) + 1))
        whole.apply({r: gone})
        assert single.count("q")[0] == whole.count("q")[0] == pairs(there, keyed=keyed)
        assert single.count("q") == whole.count("q")
    single._check()


def sized(n: int) -> Views:
    """n rows of each relation, of which all are in order."""
    relations = "".join(f"  {r}: {{columns: {{z: int64, b: int64}}}}\n" for r in "RS")
    live = made(relations, "SELECT R.z AS rz, R.b AS rb, S.z, S.b FROM R, S WHERE R.z < S.z", "bag")
    for r in "RS":
        live.apply({r: pa.table({"z": np.arange(n) * 2, "b": np.arange(n)})})
        # From here on, there is room for what comes.
        live.apply({r: pa.table({"z": [0], "b": [-1]})})
    return live


def counting(live: Views) -> Views:
    arena = live.engine.arena
    seen: Any = (each.view(Counted) if isinstance(each, np.ndarray) else each for each in arena.store)
    arena.store = type(arena.store)(*seen)
    return live


def reads_of_changes(n: int) -> list[int]:
    """How often memory is read for a change of either side, at both ends of the order; kernels uncompiled."""
    live = counting(sized(n))
    found = []
    for r in "RS":
        for z in (1, 2 * n - 3):
            Counted.reads = 0
            live.apply({r: pa.table({"z": [z], "b": [n]})})
            found.append(Counted.reads)
    assert live.count("q")[0] > 0
    return found


def reads_between_rows(n: int) -> tuple[int, int]:
    """The most reads between two rows of n: those of R and S are far from each other in one order."""
    relations = "".join(f"  {r}: {{columns: {{z: int64, b: int64}}}}\n" for r in "RS")
    live = made(relations, "SELECT R.z AS rz, R.b AS rb, S.z, S.b FROM R, S WHERE R.z < S.z", "bag")
    # Half of the readers read nothing, and one reads all that there is.
    live.apply({"S": pa.table({"z": [*range(n), 3 * n], "b": [0] * (n + 1)})})
    live.apply({"R": pa.table({"z": [*range(n + 1, 2 * n)], "b": [0] * (n - 1)})})
    shown = [live.layout.trees["q"].plan.query.columns[0].source]
    blocks, most, rows = counting(live).engine.blocks("q", shown, 1), 0, 0
    while True:
        Counted.reads = 0
        block = next(blocks, None)
        most = max(most, Counted.reads)
        if block is None:
            return rows, most
        rows += len(block[1])


def in_process(expression: str) -> Any:
    """The value of an expression over this module, with kernels uncompiled."""
    script = (
        "import json; from tests.engine import test_enumeration, test_waiting_sums as module; "
        f"test_enumeration.without_prefetch(); print(json.dumps(module.{expression}))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_a_change_touches_no_reader() -> None:
    small, large = in_process(f"reads_of_changes({SIZES[0]})"), in_process(f"reads_of_changes({SIZES[1]})")
    for few, many in zip(small, large, strict=True):
        assert many < 1.6 * few, "eight times the rows, and up to a level more in each tree"


def test_the_work_between_two_rows_does_not_grow_with_the_data() -> None:
    (few, small), (many, large) = in_process("reads_between_rows(40)"), in_process("reads_between_rows(320)")
    assert (few, many) == (39, 319) and large <= small + 40, "a search in a tree that has a level more"
