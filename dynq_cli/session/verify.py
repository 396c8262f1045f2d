"""`verify`: every result computed anew by DuckDB from the base tables, and compared with what is kept.

    for verdict in verify(".dynq"):
        verdict.agrees       counts, distinct counts and rows are the same, as bags
        verdict.too_many     some rows that are kept too often, with their copies on both sides
        verdict.too_few      some that are kept too rarely

A query that DuckDB cannot compute says nothing about the others: whoever hears of it may go on with them.

Neither plans nor view trees take part in recomputing (`recompute`). All data passes through in blocks, and DuckDB moves
to disk what does not fit into memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.query.duck import Duck, DuckError
from dynq_cli.session.recompute import Compared, Counted, compare, load_base_tables

if TYPE_CHECKING:
    from dynq_cli.engine.views import Views
    from dynq_cli.storage.manifest import Counts


def _raised(query: str, reason: str) -> None:
    raise DynqError(f"cannot recompute query {query}: {reason}")


@dataclass(frozen=True)
class Verdict(Compared):
    """What became of one query: `kept` is what the engine enumerates, `recomputed` what DuckDB finds,
    `counted` what the engine counts, and `recorded` what the state says without opening it."""

    query: str
    counted: Counted
    recorded: Counted

    @property
    def agrees(self) -> bool:
        same = self.recorded == self.counted == self.kept == self.recomputed
        return same and not self.too_many.kept and not self.too_few.kept


def verify(
    state: str | os.PathLike[str] = ".dynq",
    query: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    failed: Callable[[str, str], None] = _raised,
) -> Iterator[Verdict]:
    """Recompute one query of the version in force, or all of them, each when its verdict is asked for.

    `progress` hears of rows that were handed to DuckDB, `failed` of a query that it cannot compute, and why; then
    the others follow, unless it raises, as it does by default.
    O(base tables) to load, and then what DuckDB takes to compute the results. Nothing is changed.
    """
    from dynq_cli.storage.manifest import read_manifest
    from dynq_cli.storage.plans import read_plans
    from dynq_cli.storage.recover import open_latest

    directory = Path(state)
    manifest = read_manifest(directory)
    if query is not None and query not in manifest.counts:
        raise UsageError(f"no query {query} in the spec; there is {', '.join(manifest.counts)}")
    opened = open_latest(directory, read_plans(directory, manifest))
    return verify_live(opened.live, opened.manifest.counts, [query] if query else None, progress, failed)


def verify_live(
    live: Views,
    recorded: Mapping[str, Counts] | None = None,
    queries: list[str] | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    failed: Callable[[str, str], None] = _raised,
) -> Iterator[Verdict]:
    """The same for an engine in memory; `recorded` are counts that were written down."""
    with _told("make room for DuckDB"):
        spill = tempfile.TemporaryDirectory(prefix="dynq-verify-")
    with spill, Duck(spill=spill.name) as duck:
        with _told("load the base tables into DuckDB"):
            load_base_tables(duck, live, progress)
        for name in queries or [q.name for q in live.spec.queries]:
            try:
                found = compare(duck, live, name, progress)
            except (DuckError, OSError) as error:
                failed(name, str(error))
                continue
            counted = Counted(*live.count(name))
            written = Counted(recorded[name].rows, recorded[name].distinct) if recorded else counted
            yield Verdict(**vars(found), query=name, counted=counted, recorded=written)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (DuckError, OSError) as error:
        raise DynqError(f"cannot {what}: {error}") from None
