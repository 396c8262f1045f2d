"""Write seeded change logs of the shapes that the benchmarks measure.

    python benchmarks/workloads.py SHAPE DIR --rows N [--per-key K] [--chunks C] [--deletes P]

    star         L(s,o,l), S(s,n), P(s,p): one key s. The result has rows * per_key² * 0.002 rows.
    chain        R(x,y), S(y,z), T(z,u): many keys y and z
    ineq         R(a,b), S(d,e), a < d alone. The result has about rows² / 8 rows.
    window       small(acc,t1,i1), large(acc,t2,i2): one account, t2 within an hour after t1
    dependants   the chain's relations with one row R(0,0), on which all N rows of S depend

`DIR/spec.yaml`, and `DIR/RELATION.CHUNK.parquet` with `_change_type`: a chunk deletes rows of earlier chunks
and inserts fresh ones. No row is inserted twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Rows = NDArray[np.int64]

STAR = ({"L": "sol", "S": "sn", "P": "sp"}, "q(s, o, l, n, p) :- L(s, o, l), S(s, n), P(s, p)")
CHAIN = ({"R": "xy", "S": "yz", "T": "zu"}, "q(x, y, z, u) :- R(x, y), S(y, z), T(z, u)")
INEQ = ({"R": "ab", "S": "de"}, "q(a, b, d, e) :- R(a, b), S(d, e), a < d")
WINDOW = (
    {"small": ("acc", "t1", "i1"), "large": ("acc", "t2", "i2")},
    "q(acc, t1, i1, t2, i2) :- small(acc, t1, i1), large(acc, t2, i2), t1 < t2, t2 < t1 + 3600",
)
SHAPES: Mapping[str, tuple[Mapping[str, Sequence[str]], str]] = {
    "star": STAR,
    "chain": CHAIN,
    "ineq": INEQ,
    "window": WINDOW,
    "dependants": CHAIN,
}
MONTH = 30 * 86_400


def star(rows: int, per_key: int, rng: np.random.Generator) -> dict[str, Rows]:
    """A serial number in every row keeps rows apart."""
    made = {}
    for name, share in (("L", 0.70), ("S", 0.01), ("P", 0.29)):
        n = max(1, int(rows * share))
        columns = [rng.integers(0, max(1, rows // per_key), n), rng.permutation(n)]
        if name == "L":
            columns.insert(1, rng.integers(0, rows, n))
        made[name] = np.column_stack(columns)
    return made


def chain(rows: int, rng: np.random.Generator) -> dict[str, Rows]:
    hubs = max(1, rows // 20)
    widths = {"R": (rows, hubs), "S": (hubs, hubs), "T": (hubs, rows)}
    made = {}
    for name, (first, second) in widths.items():
        packed = np.unique(rng.integers(0, first * second, rows // 3))
        made[name] = rng.permutation(np.column_stack([packed // second, packed % second]))
    return made


def ineq(rows: int, rng: np.random.Generator) -> dict[str, Rows]:
    n = rows // 2
    return {name: np.column_stack([rng.integers(0, rows, n), rng.permutation(n)]) for name in "RS"}


def window(rows: int, rng: np.random.Generator) -> dict[str, Rows]:
    """Two hundred events of an account in a month."""
    n, accounts = rows // 2, max(1, rows // 200)
    made = {}
    for name in ("small", "large"):
        made[name] = np.column_stack([rng.integers(0, accounts, n), rng.integers(0, MONTH, n), rng.permutation(n)])
    return made


def dependants(rows: int) -> dict[str, Rows]:
    serial = np.arange(rows, dtype=np.int64)
    same = np.zeros(rows, np.int64)
    return {
        "R": np.zeros((1, 2), np.int64),
        "S": np.column_stack([same, serial]),
        "T": np.column_stack([serial, serial]),
    }


def write_spec(folder: Path, relations: Mapping[str, Sequence[str]], rule: str) -> None:
    lines = ["version: 1", "relations:"]
    for name, columns in relations.items():
        lines.append(f"  {name}: {{columns: {{{', '.join(f'{c}: int64' for c in columns)}}}}}")
    lines += ["queries:", "  q:", f'    rule: "{rule}"', "    semantics: bag"]
    (folder / "spec.yaml").write_text("\n".join(lines) + "\n", "utf-8")


def write_logs(
    folder: Path, name: str, columns: Sequence[str], rows: Rows, chunks: int, deletes: float, seed: int
) -> None:
    """Cut rows into chunks, and let each chunk delete some that are live."""
    rng = np.random.default_rng(seed)
    live = rows[:0]
    for chunk, fresh in enumerate(np.array_split(rows, chunks)):
        gone = np.zeros(len(live), np.bool_)
        gone[rng.permutation(len(live))[: int(len(fresh) * deletes)]] = True
        body = np.concatenate([live[gone], fresh])
        kinds = np.repeat(["delete", "insert"], [int(gone.sum()), len(fresh)])
        live = np.concatenate([live[~gone], fresh])
        table = pa.table({"_change_type": kinds, **{c: body[:, i] for i, c in enumerate(columns)}})
        pq.write_table(table, folder / f"{name}.{chunk:04d}.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--per-key", type=int, default=100)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--deletes", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    relations, rule = SHAPES[given.shape]
    rng = np.random.default_rng(given.seed)
    if given.shape == "star":
        made = star(given.rows, given.per_key, rng)
    elif given.shape == "dependants":
        made = dependants(given.rows)
    else:
        made = {"chain": chain, "ineq": ineq, "window": window}[given.shape](given.rows, rng)
    given.folder.mkdir(parents=True, exist_ok=True)
    write_spec(given.folder, relations, rule)
    for name, rows in made.items():
        write_logs(given.folder, name, relations[name], rows, given.chunks, given.deletes, given.seed)


if __name__ == "__main__":
    main()
