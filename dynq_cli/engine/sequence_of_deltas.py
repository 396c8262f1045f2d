"""The deltas of a result over a sequence of commits, one after the other.

Delta(codes, copies, ends)    the delta of commit i has the rows from ends[i - 1] to ends[i], exclusive
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dynq_cli.engine.changes import Codes
from dynq_cli.engine.consolidate import consolidated


class Delta(NamedTuple):
    """Rows of codes, a row of them per column, with signed multiplicities, and where each commit ends."""

    codes: Codes
    copies: Codes
    ends: Codes

    @property
    def commits(self) -> Codes:
        """The number of the commit of each row."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    def only(self, rows: Codes) -> Delta:
        """Select rows by their numbers, which ascend."""
        return Delta(self.codes[:, rows], self.copies[rows], np.searchsorted(rows, self.ends))


class Sink(Protocol):
    """Collects the rows of one commit at a time (`delta_routing.Sink`)."""

    def take(self, codes: Codes, copies: Codes) -> None:
        """Add rows: codes, one row per column, and signed multiplicities."""

    def finish(self) -> tuple[Codes, Codes]:
        """Return the delta of the commit, one row of codes per row. Reset."""


def joined(several: Sequence[Delta]) -> Delta:
    """Put deltas of the same commits together: in each commit the rows of the first come first."""
    if len(several) == 1:
        return several[0]
    order = np.argsort(np.concatenate([each.commits for each in several]), kind="stable")
    codes = np.concatenate([each.codes for each in several], axis=1)[:, order]
    ends = np.sum([each.ends for each in several], axis=0)
    return Delta(codes, np.concatenate([each.copies for each in several])[order], ends)


def in_sequence(several: Sequence[Delta | None], commits: Sequence[int]) -> Delta:
    """Put the deltas of runs of commits one after the other; `commits` are how many each has, also without rows."""
    given = [each for each in several if each is not None]
    ends, total = [], 0
    for each, many in zip(several, commits, strict=True):
        ends.append(np.full(many, total) if each is None else each.ends + total)
        total += 0 if each is None else len(each.copies)
    codes = np.concatenate([each.codes for each in given], axis=1)
    return Delta(codes, np.concatenate([each.copies for each in given]), np.concatenate(ends))


def netted(delta: Delta) -> Delta:
    """Sum the multiplicities of equal rows of a commit; drop rows without copies. O(rows log rows)."""
    rows = np.concatenate([delta.codes, delta.commits[None, :]]).T
    kept, copies = consolidated(rows, delta.copies)
    ends = np.searchsorted(kept[:, -1], np.arange(len(delta.ends)), side="right")
    return Delta(kept[:, :-1].T, copies, ends)


def singly(sink: Sink, codes: Codes, copies: Codes, ends: Codes) -> Delta:
    """Pass the rows of one commit after the other through a sink."""
    found: list[tuple[Codes, Codes]] = []
    stops, start = np.zeros(len(ends), np.int64), 0
    for commit, stop in enumerate(ends.tolist()):
        if start < stop:
            sink.take(codes[:, start:stop], copies[start:stop])
            rows, signed = sink.finish()
            found.append((rows.T, signed))
            stops[commit] = len(signed)
        start = stop
    if not found:
        return Delta(codes[:, :0], copies[:0], stops)
    return Delta(
        np.concatenate([rows for rows, _ in found], axis=1), np.concatenate([c for _, c in found]), np.cumsum(stops)
    )
