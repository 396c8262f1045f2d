"""Give rows of change logs to the shards that they belong to, while the next rows are decoded.

Each shard groups its rows into commits as a state does (`commits`), on a thread of its own. Of the errors that shards
report of one block of rows, the first row's counts. Memory is O(block) per shard, besides the largest commit; of a log
with old and new images of updates it is O(log).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from os import PathLike

from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.logs.model import LogFile, LogRows
from dynq_cli.session.apply_logs import load_rows
from dynq_cli.session.commits import BackwardsError, Commits
from dynq_cli.session.marks import marks_of
from dynq_cli.session.row_counts import RowCounts
from dynq_cli.session.shard_plan import check_shards
from dynq_cli.session.update_images import Held, without_images
from dynq_cli.spec.model import Spec
from dynq_cli.storage.ledger import AppliedLog
from dynq_cli.storage.shards.create import create_sharded
from dynq_cli.storage.shards.images import has_images
from dynq_cli.storage.shards.lanes import Lanes
from dynq_cli.storage.shards.routing import Member, Router
from dynq_cli.storage.shards.state import ShardedState
from dynq_cli.storage.shards.writer import ShardedWriter
from dynq_cli.storage.writer import Writer


class ShardedCommits:
    """Takes rows for all shards; see the module."""

    def __init__(
        self,
        members: Mapping[Member, Commits],
        router: Router,
        lanes: Lanes,
        *,
        may_miss: bool = False,
        skipped: Callable[[int], None] = lambda deletes: None,
    ) -> None:
        """`skipped` is told in the end how many deletes of missing rows there were, if they may miss."""
        self._skipped = skipped
        self._may_miss = may_miss
        self._relation = ""
        self._members = members
        self._router = router
        self._lanes = lanes
        self._running: list[Future[None]] = []
        # From the first rows on that have images of updates, whose pairs are known when all rows are.
        self._held: list[Held] = []
        self._files: dict[str, int] = {}
        self._has_versions: bool | None = None

    def take_rows(self, file: LogFile, rows: LogRows) -> None:
        """Route rows, and give them to the shards once these have taken the rows before."""
        self._files.setdefault(file.path, len(self._files))
        if len(rows) and self._has_versions not in (None, rows.commits is not None):
            raise RejectedError(
                f"{file.path}: some of these rows have a _commit_version and others have none\n"
                "  hint: apply such files one by one"
            )
        if len(rows):
            self._has_versions = rows.commits is not None
        if self._may_miss and self._relation not in ("", rows.relation):
            raise RejectedError(
                f"{file.path}: on shards, missing deletes are skipped in logs of one relation at a time\n"
                "  hint: apply the logs of each relation by themselves"
            )
        self._relation = rows.relation
        if self._held or has_images(rows.kinds):
            self._held.append((file, rows))
        else:
            self._route(file, rows)

    def _route(self, file: LogFile, rows: LogRows) -> None:
        routed = [
            (member, rows if chosen is None else rows.only(chosen))
            for member, chosen in self._router.parts(rows.relation, rows.columns, len(rows))
        ]
        self._wait()
        self._start({member: self._taking(member, file, part) for member, part in routed})

    def _taking(self, member: Member, file: LogFile, rows: LogRows) -> Callable[[], None]:
        return lambda: self._members[member].take_rows(file, rows)

    def finish(self) -> None:
        """Let every shard apply its last commit, or all held rows."""
        held, self._held = self._held, []
        for file, rows in without_images(self._router.spec, held):
            self._route(file, rows)
        self._wait()
        self._start({member: commits.finish for member, commits in self._members.items()})
        self._wait()
        self._skipped(sum(commits.skipped for commits in self._members.values()))

    def _start(self, work: Mapping[Member, Callable[[], None]]) -> None:
        self._running = [self._lanes.start(each) for each in work.values()]

    def _wait(self) -> None:
        running, self._running = self._running, []
        wait(running)
        errors = [error for error in (future.exception() for future in running) if error is not None]
        if not errors:
            return
        backwards = next((error for error in errors if isinstance(error, BackwardsError)), None)
        others = [error for error in errors if not isinstance(error, DynqError)]
        raise backwards or (others[0] if others else min(errors, key=self._place))

    def _place(self, error: BaseException) -> tuple[int, int]:
        if isinstance(error, RejectedError) and error.place in self._files:
            return self._files[error.place], error.row
        return len(self._files), 0

    @property
    def counted(self) -> dict[str, RowCounts]:
        """The rows that each file inserted, replaced and deleted: each counts in one shard."""
        several: dict[str, list[RowCounts]] = {}
        for commits in self._members.values():
            for path, counts in commits.counted.items():
                several.setdefault(path, []).append(counts)
        return {path: RowCounts.total(counts) for path, counts in several.items()}


def make_sharded(
    spec: str | PathLike[str],
    state: str | PathLike[str],
    shards: int,
    loads: Sequence[tuple[str, str]] = (),
    progress: Callable[[int], None] = lambda rows: None,
    now: int | None = None,
) -> ShardedState:
    """Create a state of shards at version 0, filled from `loads`, pairs (relation, path). All or nothing."""
    check_shards(shards)

    def load(whole: Spec, views: Mapping[Member, Views], router: Router, lanes: Lanes) -> Sequence[AppliedLog]:
        def begin() -> ShardedCommits:
            several = {m: Commits(v, v.attempt, hold=True, counts=router.counting(m)) for m, v in views.items()}
            return ShardedCommits(several, router, lanes)

        return load_rows(whole, begin, loads, progress)

    return create_sharded(spec, state, shards, load, marks_of, now)


def sharded_commits(writer: Writer, *, may_miss: bool, hold: bool) -> ShardedCommits:
    """Begin to give rows to the shards of a writer."""
    assert isinstance(writer, ShardedWriter)
    made = writer.each(
        lambda member, one: (
            member,
            Commits(one.views, one.take, may_miss=may_miss, hold=hold, counts=writer.router.counting(member)),
        )
    )

    def skipped(deletes: int) -> None:
        writer.missed += deletes

    return ShardedCommits(dict(made), writer.router, writer.lanes, may_miss=may_miss, skipped=skipped)
