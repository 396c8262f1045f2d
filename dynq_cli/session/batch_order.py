"""Order logs for application: as given, but numbered batches of one source by their start.

File names may not show the order of numbered batches: as texts, `sales.10.parquet` sorts before `sales.9.parquet`.
Only such batches exchange places, and only with batches of the same source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.logs.identity import batch_of
from dynq_cli.io.logs.model import BatchId, Group


class Turn(NamedTuple):
    """A group to apply, its batch, and the error with which to refuse it, if already known."""

    group: Group
    batch: BatchId | None
    refused: DynqError | None = None


def batch_order(groups: Iterable[Group]) -> list[Turn]:
    """Return all groups in the order of application. O(files): reads the batch of each."""
    turns = [_turn(group) for group in groups]
    places: dict[str, list[int]] = {}
    for place, turn in enumerate(turns):
        if turn.batch is not None and _start(turn.batch) is not None:
            places.setdefault(turn.batch.source, []).append(place)
    for of_source in places.values():
        ordered = sorted((turns[place] for place in of_source), key=lambda turn: _start(turn.batch) or 0)
        for place, turn in zip(of_source, ordered, strict=True):
            turns[place] = turn
    return turns


def _turn(group: Group) -> Turn:
    if group.refused is not None:
        return Turn(group, None, group.refused)
    try:
        return Turn(group, batch_of(group))
    except RejectedError as error:  # raised only after the groups before it are applied
        return Turn(group, None, error)


def _start(batch: BatchId | None) -> int | None:
    """Return the numeric start of a batch; -1 for the beginning of a numbered source; None for other bounds."""
    if batch is None:
        return None
    if not batch.start and _is_number(batch.stop):
        return -1
    return int(batch.start) if _is_number(batch.start) else None


def _is_number(bound: str) -> bool:
    return bound.isdecimal() and bound.isascii()
