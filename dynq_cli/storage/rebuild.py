"""Rebuild the views from the base rows, if another version of dynq wrote them.

    rebuild(…) inserts the same base rows into empty views

A snapshot has the layout number of its views (`layout.ENGINE`), a manifest the fingerprints of their plans. If either
differs from this version's, the views are not read: the base rows of the snapshot, and then the net change of the log,
are inserted into a new engine. Both are codes, which mean the same under every plan. The result counts must be those
of the manifest; the order of rows may differ.

This module writes nothing. A reader rebuilds the views in its memory; a writer first writes a snapshot with the new
views, so that no log has records of two versions.
"""

from __future__ import annotations

import logging
from pathlib import Path

from dynq_cli.engine.arena_snapshot import Arrays, base_rows_in, dictionaries_in
from dynq_cli.engine.consolidate import NetDelta
from dynq_cli.engine.engine import BatchError
from dynq_cli.engine.net_delta import bring, joined, plain_net_delta
from dynq_cli.engine.views import Views
from dynq_cli.errors import SpecDiffersError
from dynq_cli.phases import phase
from dynq_cli.storage.layout import ENGINE, snapshot_name, wal_name
from dynq_cli.storage.manifest import Manifest, damaged
from dynq_cli.storage.plans import Planned
from dynq_cli.storage.wal import no_records, read_records

_log = logging.getLogger("dynq")
BLOCK = 1 << 20


def has_views(manifest: Manifest, planned: Planned) -> bool:
    """Whether this version of dynq can use the views of the snapshot."""
    return manifest.snapshot.engine == ENGINE and planned.fingerprints == manifest.plans


def rebuild(directory: Path, manifest: Manifest, views: Views, arrays: Arrays) -> None:
    """Insert the base rows of a manifest's version into empty views. O(base rows + log).

    DamagedError if the rows are invalid; SpecDiffersError if the counts differ from the manifest's.
    """
    _log.warning(
        "another version of dynq wrote the views of %s: rebuilding them; the next apply stores the new ones", directory
    )
    views.dictionaries = dictionaries_in(arrays, views.layout.ordered_dictionaries)
    views.label()
    nets = _log_nets(directory, manifest, views)
    try:
        with phase("rebuilding the views") as rebuilding:
            for number, relation in enumerate(views.spec.relations):
                for rows in base_rows_in(arrays, number, BLOCK):
                    bring(views, {relation.name: rows})
                    rebuilding.add(len(rows.delta))
            bring(views, nets)
    except BatchError as error:
        raise damaged(directory / snapshot_name(manifest.generation), f"has invalid rows ({error})") from None
    _check_counts(directory, manifest, views)
    views.engine.arena.settle()


def _log_nets(directory: Path, manifest: Manifest, views: Views) -> dict[str, NetDelta]:
    """Return the net change of the log by relation, after adding its values to the dictionaries."""
    nets: dict[str, list[NetDelta]] = {}
    path = directory / wal_name(manifest.generation)
    for record in read_records(path, no_records(manifest.snapshot), manifest.wal):
        views.dictionaries.extend(record.values)
        for name, changes in record.batch.items():
            nets.setdefault(name, []).append(record.nets.get(name) or plain_net_delta(changes))
    return {name: joined(several) for name, several in nets.items()}


def _check_counts(directory: Path, manifest: Manifest, views: Views) -> None:
    for query, counts in manifest.counts.items():
        if counts is None:
            continue
        rows, distinct = views.count(query)
        if (rows, distinct) != (counts.rows, counts.distinct):
            raise SpecDiffersError(
                f"{directory} says that {query} has {counts.rows:,} rows, and this version of dynq finds {rows:,} in "
                "its data; nothing was changed\n"
                "  hint: use the version that wrote it, or make a new state with `dynq init SPEC`"
            )
