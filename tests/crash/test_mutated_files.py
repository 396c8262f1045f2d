"""Damaged data files are refused by name or read as any reader reads them: no abort, no hang, no wrong rows in silence.

`DYNQ_MUTATIONS=N` is the number of files; `mutations` makes them, `mutant_server` runs them. A failure names the seed:

    python -m tests.crash.mutant_server SEED 1              runs the file of a seed again
    python -m tests.crash.mutant_server --keep SEED FOLDER  writes it, to look at
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import ROOT

FILES = int(os.environ.get("DYNQ_MUTATIONS", "300"))
PROCESSES = 1 if FILES < 1000 else min(2, os.cpu_count() or 1)
_SHOWN = 20
# Seeds whose files were taken with wrong rows once, and what was wrong with them.
FOUND = {
    1546: "a column that is neither required nor optional",
    2905: "an index that says that numbers are big-endian",
    4504: "a first schema that is not the index's: a mark of changes was lost, and deletes were inserts",
    5762: "fields without a number in statistics",
    8578: "a lost quote that swallowed fifteen rows of a CSV",
    8869: "a field of a CSV that goes on after its closing quote",
    9359: "a field that statistics have to have",
    10319: "a batch that goes on into the end mark",
    13410: "a field with backslashes that goes on after its closing quote",
}

# Seeds that are not mended: Arrow takes a page of DELTA_LENGTH_BYTE_ARRAY that DuckDB and polars refuse.
LEFT = (19083,)


def run(first: int, count: int, step: int = 1) -> list[dict[str, object]]:
    """The defects that files show, and last the counts."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.mutant_server", str(first), str(count), str(step)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("DYNQ_")} | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_damaged_file_is_refused_or_read_as_others_read_it() -> None:
    with ThreadPoolExecutor(PROCESSES) as pool:
        parts = [pool.submit(run, i, -(-FILES // PROCESSES), PROCESSES) for i in range(PROCESSES)]
        told = [line for part in parts for line in part.result()]
    print(*(line["counts"] for line in told if "counts" in line), sep="\n")
    defects = [line for line in told if "seed" in line and line["seed"] not in LEFT]
    shown = "\n".join(json.dumps(defect, indent=1) for defect in defects[:_SHOWN])
    assert not defects, f"{len(defects)} of {FILES} files:\n{shown}"


@pytest.mark.skipif(FILES < 1000, reason="part of the campaign; what they found has tests of its own in tests/io")
@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_mended(seed: int) -> None:
    defects = run(seed, 1)[:-1]
    assert not defects, FOUND[seed]
