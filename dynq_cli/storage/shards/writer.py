"""Write to all shards: each takes its rows, then all commit one version, or none does.

A commit has two steps. Every shard makes the version durable, with its manifest before kept beside it. Then the
manifest of all is replaced, which is the commit. Killed in between, the shards are taken back (`members`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dynq_cli.engine.engine import Changes
from dynq_cli.engine.mixed_commits import Ends
from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.spec.model import Spec
from dynq_cli.storage.ledger import Ledger
from dynq_cli.storage.manifest import Manifest
from dynq_cli.storage.shards.lanes import Lanes
from dynq_cli.storage.shards.manifest import ShardsManifest, member_directory, read_shards, write_shards
from dynq_cli.storage.shards.members import keep_before, take_back
from dynq_cli.storage.shards.routing import Member, Router
from dynq_cli.storage.writer import Origin, Writer

Made = TypeVar("Made")


class ShardedWriter(Writer):
    """Takes changes by shard, and commits versions of all; see the module. The caller holds the locks of all."""

    def __init__(
        self,
        directory: Path,
        top: ShardsManifest,
        spec: Spec,
        members: Mapping[Member, Writer],
        lanes: Lanes,
        *,
        rehearsal: bool = False,
        clock: int = 0,
    ) -> None:
        self.members = members
        self.lanes = lanes
        self.router = Router(spec, top.plan)
        # Set if a commit failed: the shards have to be opened again.
        self.failed = False
        self.missed = 0
        self._top = top
        self._spec = spec
        self._place = directory
        self._is_rehearsal = rehearsal
        self._clock = clock
        self._since = top.version

    @property
    def _first(self) -> Writer:
        return next(iter(self.members.values()))

    @property
    def manifest(self) -> Manifest:
        """The manifest of the first shard: logs, batches and commits of each are those of all."""
        return self._first.manifest

    @property
    def ledger(self) -> Ledger:
        return self._first.ledger

    @property
    def version(self) -> int:
        return self._first.version

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def skipped(self) -> int:
        """Deletes of missing rows that were skipped so far, each counted in one shard."""
        return self.missed

    @property
    def has_views(self) -> bool:
        return any(writer.has_views for writer in self.members.values())

    @property
    def views(self) -> Views:
        raise whole_only("what looks at all rows in one place")

    @property
    def is_clean(self) -> bool:
        return not self.failed and all(writer.is_clean for writer in self.members.values())

    @is_clean.setter
    def is_clean(self, value: bool) -> None:
        raise AttributeError

    def take(self, batch: Mapping[str, Changes], ends: Ends | None = None) -> None:
        raise whole_only("changes in the codes of one shard")

    def each(self, work: Callable[[Member, Writer], Made]) -> list[Made]:
        """Call `work` for every shard, on the machine's cores."""
        return self.lanes.map(lambda item: work(*item), self.members.items())

    def commit(self, origin: Origin, *, sync: bool = True, whole: bool = True) -> int:
        """Commit what the shards have taken as one version of all, durably; return its number."""
        coming = self.version + 1
        if self._is_rehearsal:
            self.each(lambda _, writer: writer.commit(origin))
            return coming
        try:
            self.each(lambda member, writer: self._prepare(member, writer, origin))
            made = replace(self._top, version=coming, before=self._since, clock=self._clock)
            self._top = write_shards(self._place, made)
        except BaseException:
            self._undo()
            raise
        return coming

    def _prepare(self, member: Member, writer: Writer, origin: Origin) -> None:
        keep_before(member_directory(self._place, *member))
        writer.commit(origin, whole=True)

    def _undo(self) -> None:
        """Take back the shards that have committed, unless the version is in force."""
        self.failed = True
        top = read_shards(self._place)
        for member in self.members:
            with suppress(DynqError, OSError):  # whoever comes next tries again
                take_back(member_directory(self._place, *member), top.version)

    def take_warnings(self) -> list[str]:
        found = [warning for writer in self.members.values() for warning in writer.take_warnings()]
        return list(dict.fromkeys(found))

    def abandon(self) -> None:
        for writer in self.members.values():
            writer.abandon()

    def start_over(self) -> None:
        for writer in self.members.values():
            writer.start_over()


def whole_only(what: str) -> RejectedError:
    """Return the error of a command that a state of shards does not offer."""
    return RejectedError(
        f"this is a state of shards, which does not offer {what}\n"
        "  hint: docs/scale.md lists the commands that work on shards; a state made without --shards offers all"
    )
