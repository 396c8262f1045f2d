"""dynq's side of `payoff` in one process that stays: the library on a state on disk.

    python benchmarks/run_payoff.py STATE ASK OPENING COMMIT...

Every commit is durable, then the count, the rows or the delta are at hand as Arrow. Its changes are Arrow tables in
memory when the clock starts. The first OPENING commits bring the data into memory; only after the last of them is
anything asked. Prints the seconds of the others, and the rows of the result at the end, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import as_command  # noqa: F401  before Arrow
from logs import changes_in
from payoff_cases import DELTA, ROWS

import dynq_cli


def main() -> None:
    state, ask, opening, commits = sys.argv[1], sys.argv[2], int(sys.argv[3]), [Path(word) for word in sys.argv[4:]]
    spent = []
    with dynq_cli.open(state) as view:
        for number, commit in enumerate(commits, 1):
            tables = changes_in(commit)
            start = time.perf_counter()
            version = view.apply(tables)
            if number < opening:
                continue
            if ask == DELTA:
                list(view.diff(since=version - 1).batches)
            elif ask == ROWS:
                list(view.enum())
            else:
                view.count()
            spent.append(time.perf_counter() - start)
        print(json.dumps({"rows": view.count(), "spent": spent[1:]}))


if __name__ == "__main__":
    main()
