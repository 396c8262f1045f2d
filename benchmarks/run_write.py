"""Write the rows of a Parquet file again from memory, as pyarrow does by itself, in row groups of the same size.

    python benchmarks/run_write.py FILE

Prints the seconds that writing took, fsync included, as one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq


def main() -> None:
    path = Path(sys.argv[1])
    table = pq.read_table(path)
    rows = pq.read_metadata(path).row_group(0).num_rows
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".parquet") as target:
        start = time.perf_counter()
        pq.write_table(table, target, row_group_size=rows)
        target.flush()
        os.fsync(target.fileno())
        spent = time.perf_counter() - start
    print(json.dumps({"seconds": spent, "rows": len(table)}))


if __name__ == "__main__":
    main()
