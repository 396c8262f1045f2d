"""Streams of single tuples: all relations shuffled together, first the inserts, then deletes and updates of a fifth.

    shuffled(stream, size)    the tables of the relations and, by relation, where each commit ends in them

An update stays one commit, of its old and new image. A commit has `size` changes or updates in a row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from stream import Stream

from dynq_cli.engine.mixed_commits import Ends


def shuffled(given: Stream, size: int, seed: int = 1) -> tuple[dict[str, pa.Table], Ends]:
    """The stream, whose rows come in a random order of relations and rows within inserts, and within the rest."""
    chance = np.random.default_rng(seed)
    names = [r.name for r in given.spec.relations]
    tables: dict[str, list[pa.Table]] = {name: [] for name in names}
    labels, widths = [], []
    for commits in _phases(given):
        units = {}
        for number, name in enumerate(names):
            parts = [commit[name] for commit in commits if name in commit]
            if parts:
                log = pa.concat_tables(parts)
                order, wide = _units(np.array(log["_change_type"].to_pylist()), chance)
                tables[name].append(log.take(order))
                units[number] = wide
        mixed = chance.permutation(np.repeat(list(units), [len(wide) for wide in units.values()]))
        here = np.empty(len(mixed), np.int64)
        for number, wide in units.items():
            here[mixed == number] = wide
        labels.append(mixed)
        widths.append(here)
    label, width = np.concatenate(labels), np.concatenate(widths)
    last = np.append(np.arange(size - 1, len(label) - 1, size), len(label) - 1)
    whole = {name: pa.concat_tables(parts).combine_chunks() for name, parts in tables.items() if parts}
    return whole, {name: np.cumsum(np.where(label == names.index(name), width, 0))[last] for name in whole}


def _phases(given: Stream) -> list[list[dict[str, pa.Table]]]:
    """The commits that insert, and those after them."""
    later = [any(t["_change_type"][0].as_py() != "insert" for t in commit.values()) for commit in given.commits]
    first = later.index(True)
    return [given.commits[:first], given.commits[first:]]


def _units(kinds: np.ndarray, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows in a random order in which the images of an update stay together; and how many rows each unit has."""
    alone = np.flatnonzero((kinds == "insert") | (kinds == "delete"))
    old, new = (np.flatnonzero(kinds == kind) for kind in ("update_preimage", "update_postimage"))
    units = [(row,) for row in alone] + list(zip(old, new, strict=True))
    several = [units[i] for i in chance.permutation(len(units))]
    return np.array([row for unit in several for row in unit]), np.array([len(unit) for unit in several])
