"""Put many small commits of Arrow tables together: a table per relation, and where each commit ends in it.

for several in alike(commits):
    tables, ends = together(several)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from dynq_cli.engine.changes import Codes

# Rows, and commits, that are put together: a block of what kernels take.
ROWS = 8192


def alike(commits: Iterable[Mapping[str, pa.Table]]) -> Iterator[list[Mapping[str, pa.Table]]]:
    """Yield runs of commits whose tables of a relation have the same columns, of about ROWS rows. O(tables)."""
    several: list[Mapping[str, pa.Table]] = []
    schemas: dict[str, pa.Schema] = {}
    rows = 0
    for commit in commits:
        many = sum(map(len, commit.values()))
        is_alike = all(schemas.setdefault(name, table.schema).equals(table.schema) for name, table in commit.items())
        if several and (not is_alike or rows + many > ROWS or len(several) == ROWS):
            yield several
            several, rows = [], 0
            schemas = {name: table.schema for name, table in commit.items()}
        several.append(commit)
        rows += many
    if several:
        yield several


def together(commits: Sequence[Mapping[str, pa.Table]]) -> tuple[dict[str, pa.Table], dict[str, Codes]]:
    """Return the rows of all commits by relation, and where each commit ends in them."""
    parts: dict[str, list[pa.Table]] = {}
    sizes: dict[str, Codes] = {}
    for number, commit in enumerate(commits):
        for name, table in commit.items():
            if name not in parts:
                parts[name], sizes[name] = [], np.zeros(len(commits), np.int64)
            parts[name].append(table)
            sizes[name][number] = len(table)
    tables = {name: pa.concat_tables(several).combine_chunks() for name, several in parts.items()}
    return tables, {name: np.cumsum(each) for name, each in sizes.items()}
