"""A result beside the one that DuckDB computes anew from what the relations hold.

Small results are compared row by row, floating-point numbers to twelve digits. Larger ones by their number of rows and
by the sum of the hashes of all rows, without holding them. Of very large ones only the number of rows is compared.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import duckdb
from stream import Stream

from dynq_cli.engine.views import Views
from dynq_cli.spec.model import Spec

LARGE, VERY_LARGE = 2_000, 500_000


class DiffersError(Exception):
    """A result that is not DuckDB's."""


def compared(live: Views, spec: Spec, given: Stream, many: int) -> bool:
    """Whether all rows were compared after the first `many` commits; raises DiffersError if they are others."""
    (query,) = live.queries
    text = spec.queries[0].texts[0].value.rstrip().rstrip(";")
    place = f"{query} after commit {many}"
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in given.held(many).items():
            connection.register(name, table)
        size = connection.execute(f"SELECT count(*) FROM ({text})").fetchall()[0][0]
        if live.count(query)[0] != size:
            raise DiffersError(f"{place}: {live.count(query)[0]} rows, not {size}")
        if size > VERY_LARGE:
            return False
        found, wanted = _both(connection, live, query, text, large=size > LARGE)
    if found != wanted:
        more, less = list((found - wanted).items())[:3], list((wanted - found).items())[:3]
        raise DiffersError(f"{place}: {more} instead of {less}")
    return True


def _both(
    connection: duckdb.DuckDBPyConnection, live: Views, query: str, text: str, *, large: bool
) -> tuple[Counter[Any], Counter[Any]]:
    """Rows with their copies, of ours and of DuckDB's; of large results the sum of hashes."""
    if not large:
        return _rows(live, query), Counter(map(_plain, connection.execute(text).fetchall()))
    types = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {text}").fetchall()}
    hashed = ", ".join(f'CAST("{name}" AS {kind})' for name, kind in types.items())
    total = f"SELECT coalesce(sum(CAST(hash({hashed}) AS HUGEINT) * {{}}), 0) FROM ({{}})"
    ours, copies = 0, "_count" if _is_bag(live, query) else "1"
    for batch in live.enum(query):
        connection.register("ours", batch)
        ours += connection.execute(total.format(copies, "FROM ours")).fetchall()[0][0]
        connection.unregister("ours")
    theirs = connection.execute(total.format("1", text)).fetchall()[0][0]
    return Counter({("sum of hashes", ours): 1}), Counter({("sum of hashes", theirs): 1})


def _rows(live: Views, query: str) -> Counter[Any]:
    found: Counter[Any] = Counter()
    is_bag = _is_bag(live, query)
    for batch in live.enum(query):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[_plain(row[:-1] if is_bag else row)] += row[-1] if is_bag else 1
    return found


def _is_bag(live: Views, query: str) -> bool:
    return bool(live.schema(query).names[-1:] == ["_count"])


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_rounded(v) if isinstance(v, float) else v for v in row)


def _rounded(value: float) -> float | str:
    """Twelve digits; NaN as a text, which equals itself."""
    return "NaN" if math.isnan(value) else float(f"{value:.12g}")
