"""Write many small change logs for a star that is loaded: rows of L that come, and that go again later.

    python benchmarks/run_cut.py LOGS DIR CHANGES MANY

Odd logs delete what the log before inserted. Keys are those of the star, so every change meets its partners.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    logs, folder, changes, many = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    folder.mkdir(parents=True)
    like = pq.read_table(sorted(logs.glob("L.*.parquet"))[0])
    keys = like[like.column_names[1]].to_numpy()
    rng = np.random.default_rng(7)
    names = [n for n in like.column_names if n != "_change_type"]
    table = like.slice(0, 0)
    for number in range(many):
        if number % 2 == 0:
            fresh = {names[0]: rng.choice(keys, changes)}
            fresh |= {n: np.arange(changes) + (number + 1) * -changes for n in names[1:]}
            table = pa.table({"_change_type": ["insert"] * changes, **fresh})
        else:
            table = table.set_column(0, "_change_type", pa.array(["delete"] * changes))
        pq.write_table(table, folder / f"L.{number:05d}.parquet")
    print(json.dumps({"logs": many}))


if __name__ == "__main__":
    main()
