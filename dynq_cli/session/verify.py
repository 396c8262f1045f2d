"""`verify`: recompute every result with DuckDB from the base tables, and compare it with dynq's.

    for verdict in verify(".dynq"):
        verdict.agrees       counts, distinct counts and rows are the same, as bags
        verdict.too_many     rows of which dynq has too many copies, with both multiplicities
        verdict.too_few      rows of which dynq has too few

The other queries are still verified if DuckDB cannot compute one.

A query that is kept for tests alone is tested for the recomputed rows, and for as many that are mixed from these.

The recomputation uses neither plans nor view trees (`recompute`). Data is passed in blocks, and DuckDB spills to disk
what does not fit into memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.query.duck import Duck, DuckError
from dynq_cli.session.recompute import Compared, Counted, Kept, KeptViews, compare, load_base_tables

if TYPE_CHECKING:
    from dynq_cli.engine.views import Views
    from dynq_cli.storage.manifest import Counts


def _raised(query: str, reason: str) -> None:
    raise DynqError(f"cannot recompute query {query}: {reason}")


@dataclass(frozen=True)
class Verdict(Compared):
    """The comparison of one query.

    `kept`: sizes of the engine's enumeration; `recomputed`: of DuckDB's result; `counted`: the engine's counts;
    `recorded`: the counts in the manifest.
    """

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
    """Recompute one query of the version in force, or all; each when the iterator reaches it. Changes nothing.

    Call `progress` with the number of rows loaded into DuckDB, and `failed` with a query that DuckDB cannot compute and
    the reason. By default `failed` raises; otherwise the other queries follow. O(base tables) to load, plus the time
    that DuckDB takes for the results.
    """
    from dynq_cli.storage.layout import SHARDS
    from dynq_cli.storage.manifest import read_manifest
    from dynq_cli.storage.plans import read_plans
    from dynq_cli.storage.recover import open_latest

    directory = Path(state)
    if (directory / SHARDS).exists():
        return _verify_shards(directory, query, progress, failed)
    manifest = read_manifest(directory)
    if query is not None and query not in manifest.counts:
        raise UsageError(f"no query {query} in the spec; there is {', '.join(manifest.counts)}")
    manifest, views = open_latest(directory, read_plans(directory, manifest))
    return verify_views(views, manifest.counts, [query] if query else None, progress, failed)


def verify_views(
    views: Views,
    recorded: Mapping[str, Counts | None] | None = None,
    queries: list[str] | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    failed: Callable[[str, str], None] = _raised,
) -> Iterator[Verdict]:
    """Like `verify`, for an engine in memory; `recorded` are the counts to compare with, by default the engine's."""

    def counted(name: str) -> Counted | None:
        return None if name in views.engine.tested else Counted(*views.count(name))

    names = queries or [q.name for q in views.spec.queries]
    return _verdicts(KeptViews(views), names, counted, recorded, progress, failed)


def _verify_shards(
    directory: Path, query: str | None, progress: Callable[[int], None], failed: Callable[[str, str], None]
) -> Iterator[Verdict]:
    """Verify a state of shards: what it gives when read, from the base rows of all shards."""
    from dynq_cli.storage.shards.kept import KeptShards
    from dynq_cli.storage.shards.state import ShardedState

    state = ShardedState(directory)
    kept = KeptShards(state)
    if query is not None and query not in state.queries:
        raise UsageError(f"no query {query} in the spec; there is {', '.join(state.queries)}")

    def counted(name: str) -> Counted | None:
        if kept.is_tested(name):
            return None
        found = state.counts(name)
        return Counted(found.rows, found.distinct)

    return _verdicts(kept, [query] if query else state.queries, counted, None, progress, failed)


def _verdicts(
    kept: Kept,
    names: Sequence[str],
    counted: Callable[[str], Counted | None],
    recorded: Mapping[str, Counts | None] | None,
    progress: Callable[[int], None],
    failed: Callable[[str, str], None],
) -> Iterator[Verdict]:
    with _told("make room for DuckDB"):
        spill = tempfile.TemporaryDirectory(prefix="dynq-verify-")
    with spill, Duck(spill=spill.name) as duck:
        with _told("load the base tables into DuckDB"):
            load_base_tables(duck, kept, progress)
        for name in names:
            try:
                found = compare(duck, kept, name, progress)
            except (DuckError, OSError) as error:
                failed(name, str(error))
                continue
            sizes = counted(name) or found.kept
            noted = recorded[name] if recorded else None
            written = sizes if noted is None else Counted(noted.rows, noted.distinct)
            yield Verdict(**vars(found), query=name, counted=sizes, recorded=written)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (DuckError, OSError) as error:
        raise DynqError(f"cannot {what}: {error}") from None
