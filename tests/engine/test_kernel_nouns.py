"""What kernels are given: few arguments, and rows with named fields that are the words of a matrix."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np

from dynq_cli.engine.kernels import aggregate_rows, delta_join, dirty, enumerate, exact_sums, lookup, positions
from dynq_cli.engine.kernels import enumeration_pipeline as pipeline
from dynq_cli.engine.kernels import fields as f
from tests.every_case import every_case

ROOT = Path(__file__).parents[2]
MOST, MEAN = 10, 5
ROW_TYPES = {
    "TABLE": f.TABLE,
    "NODE": f.NODE,
    "TREE": f.TREE,
    "ORDER": f.ORDER,
    "BOUND": f.BOUND,
    "dirty.LEVEL": dirty.LEVEL,
    "dirty.WHEEL": dirty.WHEEL,
    "delta_join.STEP": delta_join.STEP,
    "enumeration_pipeline.STAGE": pipeline.STAGE,
    "enumerate.RUN": enumerate.RUN,
    "aggregate_rows.MEASURE": aggregate_rows.MEASURE,
    "exact_sums.SUM": exact_sums.SUM,
    "lookup.LEVEL": lookup.LEVEL,
    "lookup.FIELD": lookup.FIELD,
    "positions.POSITION": positions.POSITION,
    "positions.CURSOR": positions.CURSOR,
}


def kernels() -> Iterator[tuple[str, int]]:
    """Every kernel, and how many parameters it has."""
    for path in sorted((ROOT / "dynq_cli" / "engine" / "kernels").glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(d) for d in node.decorator_list):
                yield f"{path.stem}.{node.name}", len(node.args.args)


def test_kernels_take_few_arguments() -> None:
    found = dict(kernels())
    assert len(found) > 300, "kernels are found by their decorator"
    assert [f"{name}: {many}" for name, many in found.items() if many > MOST] == []
    assert mean(found.values()) < MEAN


@every_case("name", ROW_TYPES)
def test_a_field_of_a_row_is_a_word_and_no_attribute_that_records_have(name: str) -> None:
    kind = ROW_TYPES[name]
    assert kind.names is not None and kind.fields is not None
    assert not set(kind.names) & set(dir(np.record)), "an attribute of numpy's records would hide the field"
    assert kind.isalignedstruct and kind.itemsize == 8 * f.matrix_of(f.made(kind, [f.blank(kind)])).size
    assert {field[0].base for field in kind.fields.values()} == {np.dtype(np.int64)}
    assert [field[1] for field in kind.fields.values()] == sorted(field[1] for field in kind.fields.values())


def test_rows_and_their_matrix_are_the_same_memory() -> None:
    rows = f.made(f.NODE, [f.blank(f.NODE), {"table": 7, "listed": 0}])
    matrix = f.matrix_of(rows)
    assert matrix.shape == (2, len(f.NODE.names or ()) - 1 + f.RING) and (rows["ring"] == -1).all()
    matrix[1, 0] = 9
    assert rows[1].table == 9
    rows[1].ring[f.RING - 1] = 5
    assert matrix[1, -1] == 5 and f.rows_of(f.NODE, matrix)[1].ring[f.RING - 1] == 5


CHANGES = """
import numpy as np
from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.aggregates import touch
from dynq_cli.engine.kernels.table import find, find_or_insert

fields = {"arity": 2, "hashed": 2, "stride": 4, "refs": 4, "mark": 5}
empty = dict.fromkeys(("capacity", "used", "live", "mask"), 0)
arena = Arena(f.made(f.TABLE, [f.blank(f.TABLE) | fields | empty]))
arena.reserve(0, 100)
for i in range(100):
    row, is_new = find_or_insert(arena.store, 0, np.array([i % 60, 1]))
    touch(arena.store, 0, row)
assert find(arena.store, 0, np.array([8, 1])) == 8 and arena.tables[0].queue_tail == 59
print(f.matrix_of(arena.tables).tolist(), int(arena.words[: arena.top].sum() % 1000003))
"""


def test_compiled_and_uncompiled_kernels_write_the_same_fields() -> None:
    given = []
    for disabled in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CHANGES],
            env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert run.returncode == 0, run.stderr
        given.append(run.stdout)
    assert given[0] == given[1]
