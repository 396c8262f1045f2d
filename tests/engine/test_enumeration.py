"""Enumeration: every distinct row once, constant work from row to row, in an order that only the history decides."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.engine.random_queries import random_case
from tests.engine.random_runs import Stored, apply, enumerated, make_live

BLOCKS = (1, 2, 3, 7, 65536)
ORDER_SEEDS = (3, 17, 29)
SIZES = (4, 40)
CHAIN = """
version: 1
relations:
  R: {columns: {a: int64, b: int64}}
  S: {columns: {b: int64, c: int64}}
  T: {columns: {c: int64, d: int64}}
  U: {columns: {u: int64}}
queries:
  chain: {sql: "SELECT R.a, R.b, S.c, T.d FROM R, S, T WHERE R.b = S.b AND S.c = T.c"}
  ends: {sql: "SELECT R.b, R.a FROM R, S, T WHERE R.b = S.b AND S.c = T.c"}
  star: {sql: "SELECT R.a, R.b, S.c FROM R, S WHERE R.b = S.b"}
  product: {sql: "SELECT R.b, U.u FROM R, U"}
  filtered: {sql: "SELECT DISTINCT S.b, S.c FROM R, S WHERE R.b = S.b AND R.a < 2"}
"""


def chain(n: int) -> Views:
    """n values per relation that join, and ten times as many that lead nowhere: the last atom lacks them."""
    spec = parse_spec(CHAIN, "spec.yaml")
    live = Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})
    dead = 10 * n
    joined, dangling = list(range(n)), list(range(n, n + dead))
    live.apply(
        {
            "R": pa.table({"a": [i % 3 for i in joined + dangling], "b": joined + dangling}),
            "S": pa.table({"b": joined + dangling, "c": joined + dangling}),
            "T": pa.table({"c": joined + [c + 10**6 for c in dangling], "d": joined + dangling}),
            "U": pa.table({"u": [1, 2, 3]}),
        }
    )
    gone = dangling[::2]
    live.apply({"R": pa.table({"_change_type": ["delete"] * len(gone), "a": [i % 3 for i in gone], "b": gone})})
    return live


class Counted(np.ndarray[Any, Any]):
    """An array that counts how often it is read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        Counted.reads += 1
        return super().__getitem__(index)


def without_prefetch() -> None:
    """Loading cache lines early is an instruction of its own, which uncompiled kernels cannot say and do not need."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dynq_cli.engine.kernels.") and callable(getattr(module, "prefetch", None)):
            setattr(module, "prefetch", lambda *_: None)  # noqa: B010


def reads_between_rows(n: int) -> dict[str, tuple[int, int]]:
    """Per query the rows, and the most array reads before any of them and after the last; kernels uncompiled."""
    live = chain(n)
    arena = live.engine.arena
    seen: Any = (each.view(Counted) if isinstance(each, np.ndarray) else each for each in arena.store)
    arena.store = type(arena.store)(*seen)
    found = {}
    for query in live.layout.trees:
        variables = [c.source for c in live.layout.trees[query].plan.query.columns]
        blocks, most, rows = live.engine.blocks(query, variables, 1), 0, 0
        while True:
            Counted.reads = 0
            block = next(blocks, None)
            most = max(most, Counted.reads)
            if block is None:
                break
            rows += len(block[1])
        found[query] = (rows, most)
    return found


def in_process(expression: str, **environment: str) -> str:
    """The printed value of an expression over this module, in a process with these variables set."""
    script = f"from tests.engine import test_enumeration as module; print(module.{expression})"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def delays() -> str:
    without_prefetch()
    return json.dumps([reads_between_rows(n) for n in SIZES])


def test_the_work_between_two_rows_does_not_grow_with_the_data() -> None:
    small, large = json.loads(in_process("delays()", NUMBA_DISABLE_JIT="1"))
    for query, (rows, most) in large.items():
        assert rows > small[query][0] > 0
        assert most == small[query][1], f"{query}: {small[query][1]} reads per row, then {most}"


def test_the_first_row_comes_before_the_others_are_looked_for() -> None:
    live = chain(2000)
    first = next(live.enum("chain", 5))
    assert len(first) == 5, "a block is given out as soon as it is full"


@pytest.mark.parametrize("seed", range(6))
def test_every_block_size_gives_the_same_rows_in_the_same_order(seed: int) -> None:
    case = random_case(seed + 1000, 6, 4)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
    for query in case.queries:
        whole = enumerated(live, query)
        assert len({row for row, _ in whole}) == len(whole) == live.count(query.name)[1]
        assert sum(copies for _, copies in whole) == live.count(query.name)[0]
        if len(whole) > 2000:
            continue
        for block in BLOCKS:
            assert enumerated(live, query, block) == whole, f"seed {seed}: {query.text}"
            sizes = [len(b) for b in live.enum(query.name, block)]
            assert all(size == block for size in sizes[:-1]), "all blocks but the last are full"


def order() -> str:
    """A digest of all results of some histories, in their order."""
    digest = hashlib.sha256()
    for seed in ORDER_SEEDS:
        case = random_case(seed, 6, 5)
        live, stored = make_live(case), Stored(case.spec)
        for batch in case.history:
            apply(live, case, batch, stored.applicable(batch.changes))
            for query in case.queries:
                digest.update(repr(enumerated(live, query)[:2000]).encode())
    return digest.hexdigest()


def test_the_order_depends_on_the_history_only() -> None:
    digests = {in_process("order()", PYTHONHASHSEED=seed) for seed in ("0", "424242")}
    assert len(digests) == 1


def test_a_row_that_dies_and_comes_back_is_enumerated_once() -> None:
    live = chain(3)
    change = {"b": [1], "c": [1]}
    before = sorted(map(str, pa.Table.from_batches(live.enum("chain")).to_pylist()))
    for kind in ("delete", "insert") * 3:
        live.apply({"S": pa.table({"_change_type": [kind], **change})})
        live._check()
    assert sorted(map(str, pa.Table.from_batches(live.enum("chain")).to_pylist())) == before
