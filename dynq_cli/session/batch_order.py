"""Logs in the order in which they are applied: as they are given, but the batches of one source one after the other.

Batches that say from which number to which they go have an order of their own, which names may hide: as texts,
`sales.10.parquet` comes before `sales.9.parquet`. They change places among themselves only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.logs.identity import batch_of
from dynq_cli.io.logs.model import BatchId, Group


class Turn(NamedTuple):
    """A group whose turn comes, the batch that it is, and why it will be refused, if that is known already."""

    group: Group
    batch: BatchId | None
    refused: DynqError | None = None


def batch_order(groups: Iterable[Group]) -> list[Turn]:
    """All groups, in the order in which they are to be applied. O(files): the batch of each is read."""
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
    except RejectedError as error:  # what comes before it is to be applied first
        return Turn(group, None, error)


def _start(batch: BatchId | None) -> int | None:
    """Where a batch starts, if that is a number, or the beginning of what is numbered."""
    if batch is None:
        return None
    if not batch.start and _is_number(batch.stop):
        return -1
    return int(batch.start) if _is_number(batch.start) else None


def _is_number(bound: str) -> bool:
    return bound.isdecimal() and bound.isascii()
