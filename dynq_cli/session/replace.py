"""Replace whole relations by files: the difference to the stored rows becomes one version.

    replace_relations(state, ["orders=dump/orders.parquet"])

A file, or the files below a path, contain all rows of their relation. Rows missing in the files are deleted, rows
missing in the relation are inserted. Rows marked as deleted count as missing. In a format with soft deletes the last
row of a key counts, as for logs. If nothing differs, there is no new version. A refused file changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dynq_cli.engine.changes import Changes
from dynq_cli.engine.consolidate import in_order
from dynq_cli.engine.engine import BatchError
from dynq_cli.engine.replacement import Replacement, is_empty
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.logs.chunks import rows_in
from dynq_cli.io.logs.discover import find_groups
from dynq_cli.io.logs.identity import Identity, identity_of, refuse_changed
from dynq_cli.io.logs.model import LogFile
from dynq_cli.io.logs.read import form_named, read_log
from dynq_cli.phases import phase
from dynq_cli.session.apply_logs import Outcome
from dynq_cli.session.commits import Commits, encoded
from dynq_cli.session.row_counts import RowCounts, Watch
from dynq_cli.session.sourced_changes import SourcedChanges
from dynq_cli.spec.shown import shown
from dynq_cli.storage.ledger import REPLACE, AppliedLog
from dynq_cli.storage.state import State
from dynq_cli.storage.writer import Origin, Writer
from dynq_cli.values import change_kinds as k

_MOST_NAMED = 3


@dataclass(frozen=True)
class Whole:
    """The files that replace a relation. `named` is the relation if the user named it, else None."""

    named: str | None
    files: tuple[LogFile, ...]
    extractions: tuple[str, ...]


def replace_relations(
    state: State,
    asked: Sequence[str],
    *,
    form: str | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
    warn: Callable[[str], None] = lambda message: None,
) -> Outcome:
    """Replace relations by files, as one version. An argument is `RELATION=PATH`, or a path that names its relation.

    `form` is the value of `--format`. RejectedError if a file is not valid for its relation, UsageError if its relation
    is not clear, LockedError if another process is writing. O(rows of the files and of the relations).
    """
    form_named(form)
    with state.writing(rehearsal=dry_run) as writer:
        try:
            wholes = _wholes(asked, [r.name for r in state.spec.own_relations], warn)
            return _Replacing(writer, wholes, _shortened(asked), form, progress).run()
        except RejectedError as error:
            raise RejectedError(
                f"{error}\n  nothing of it was applied; the state is at version {writer.version}"
            ) from None


def _wholes(asked: Sequence[str], relations: Sequence[str], warn: Callable[[str], None]) -> dict[str, Whole]:
    found: dict[str, Whole] = {}
    for item in asked:
        named, path = _split(item, relations)
        groups = find_groups([path], relations, relation=named, atomic=True, warn=warn)
        files = [file for group in groups for file in group.files]
        if not files:
            raise RejectedError(
                f"{path} has no data files, so the rows of the relation are not known\n"
                "  hint: for an empty relation, write a file that has its columns and no rows"
            )
        extractions = tuple(folder for group in groups for folder in group.extractions)
        of: dict[str, list[LogFile]] = {}
        for file in files:
            if file.relation is None:
                raise UsageError(f"the relation of {file.path} is not clear: write --replace RELATION={item}")
            of.setdefault(file.relation, []).append(file)
        for relation, several in of.items():
            if relation in found:
                raise UsageError(
                    f"--replace {item}: {relation} is replaced by {found[relation].files[0].path} already\n"
                    "  hint: put all files of a relation into one directory"
                )
            found[relation] = Whole(named, tuple(several), extractions)
    return found


def _split(item: str, relations: Sequence[str]) -> tuple[str | None, str]:
    """Split an argument into the relation, if it names one, and the path."""
    relation, equals, path = item.partition("=")
    if equals and relation in relations:
        if not path:
            raise UsageError(f"--replace {item} names no file: write --replace {relation}=PATH")
        return relation, path
    if equals and not os.path.exists(item):
        raise UsageError(
            f"--replace {item}: no relation {shown(relation)} in the spec; there is {', '.join(relations)}"
        )
    if not item:
        raise UsageError("--replace names no file: write --replace RELATION=PATH")
    return None, item


def _shortened(asked: Sequence[str]) -> str:
    more = f" and {len(asked) - _MOST_NAMED} more" if len(asked) > _MOST_NAMED else ""
    return ", ".join(asked[:_MOST_NAMED]) + more


@dataclass
class _Replacing:
    """Replaces relations as one version."""

    writer: Writer
    wholes: Mapping[str, Whole]
    path: str
    form: str | None
    progress: Callable[[int], None]
    rows: dict[str, int] = field(default_factory=dict)  # by file
    identities: dict[str, Identity] = field(default_factory=dict)  # by file
    counted: dict[str, RowCounts] = field(default_factory=dict)  # by relation

    def run(self) -> Outcome:
        views = self.writer.views
        # Into empty relations the rows are streamed, like a log.
        if all(is_empty(views, relation) for relation in self.wholes):
            self._fill()
        else:
            self._replace()
        rows, total = sum(self.rows.values()), RowCounts.total(self.counted.values())
        if total == RowCounts():
            reason = "nothing changed, so there is no new version"
            return Outcome(self.path, None, form=REPLACE, rows=rows, reason=reason)
        version = self.writer.commit(Origin(list(self._logs())))
        many = total.inserted, total.replaced, total.deleted
        return Outcome(self.path, version, REPLACE, rows, *many, warnings=tuple(self.writer.take_warnings()))

    def _fill(self) -> None:
        commits = Commits(self.writer.views, self.writer.take)
        for relation, whole in self.wholes.items():
            for piece in self._pieces(relation, whole):
                commits.add(relation, piece)
        commits.finish()
        for relation, whole in self.wholes.items():
            paths = {file.path for file in whole.files}
            self.counted[relation] = RowCounts.total(commits.counted[path] for path in paths & commits.counted.keys())

    def _replace(self) -> None:
        views = self.writer.views
        batch: dict[str, Changes] = {}
        new: dict[str, SourcedChanges] = {}
        for relation, whole in self.wholes.items():
            replacement = Replacement(views, relation)
            pieces = []
            for piece in self._pieces(relation, whole):
                try:
                    missing = replacement.add(piece.changes)
                except BatchError as error:
                    file, number = piece.place(error.change)
                    raise views.rejected(error, {relation: piece.changes}, file.path, number) from None
                if missing.any():
                    pieces.append(piece.only(missing))
            if pieces:
                new[relation] = SourcedChanges.joined(pieces)
            changes = replacement.difference([new[relation].changes] if pieces else [])
            if len(changes):
                batch[relation] = changes
                self.counted[relation] = Watch(views, relation, changes, None).total()
                if views.base(relation).relation.append_only:
                    _refuse_losses(self.counted[relation], relation, whole)
        try:
            if batch:
                self.writer.take(batch)
        except BatchError as error:
            of = new[error.relation]
            file, number = of.place(error.change - (len(batch[error.relation]) - len(of)))
            raise views.rejected(error, batch, file.path, number) from None

    def _pieces(self, relation: str, whole: Whole) -> Iterator[SourcedChanges]:
        """Yield the rows of a relation's files as inserts. Holds all rows of formats with soft deletes in memory."""
        views = self.writer.views
        held = []
        for file in whole.files:
            identity = self.identities[file.path] = identity_of(file, whole.extractions)
            log = read_log(file, views.spec, form=self.form, relation=whole.named, whole=True)
            self.rows[file.path] = 0
            with phase(f"comparing {os.path.basename(file.path)}", total=rows_in(file)) as comparing:
                for rows in log.rows():
                    piece = encoded(views, file, rows)
                    self.rows[file.path] += len(rows)
                    comparing.add(len(rows))
                    self.progress(len(rows))
                    if (piece.changes.ops == k.INSERT).all():
                        yield piece
                    else:
                        _refuse_images(piece, relation)
                        held.append(piece)
            refuse_changed(file, identity)
        if held:
            yield _current(SourcedChanges.joined(held).in_order(), len(views.base(relation).relation.key))

    def _logs(self) -> Iterator[AppliedLog]:
        """Yield the ledger's records; the first file of a relation carries the row counts of all its files."""
        for relation, whole in self.wholes.items():
            counted = self.counted.get(relation, RowCounts())
            for file in whole.files:
                i = self.identities[file.path]
                rows = self.rows[file.path]
                numbers = counted.inserted, counted.deleted, counted.replaced
                yield AppliedLog(relation, i.name, i.content, i.length, REPLACE, rows, *numbers)
                counted = RowCounts()


def _refuse_losses(counted: RowCounts, relation: str, whole: Whole) -> None:
    lost = counted.deleted + counted.replaced
    if lost:
        raise RejectedError(
            f"{whole.files[0].path}: {lost:,} row{'s' if lost > 1 else ''} of {relation} would go, "
            "which the spec declares `append_only`"
        )


def _refuse_images(piece: SourcedChanges, relation: str) -> None:
    wrong = ~np.isin(piece.changes.ops, (k.INSERT, k.UPSERT, k.ERASE))
    if wrong.any():
        file, number = piece.place(int(wrong.argmax()))
        reason = f"this is a change of {relation}, but --replace needs all rows of the relation"
        raise RejectedError.in_row(file.path, number, "", reason, "apply it without --replace")


def _current(piece: SourcedChanges, keys: int) -> SourcedChanges:
    """Return the last row of each key as an insert, without those that are deletes. O(rows log rows)."""
    order, is_first = in_order(piece.changes.codes[:, :keys])
    last = np.sort(order[np.append(is_first[1:], True)])
    last = last[piece.changes.ops[last] != k.ERASE]
    kept = piece.only(last)
    inserts = replace(kept.changes, ops=np.full(len(last), k.INSERT, np.int8))
    return replace(kept, changes=inserts, order=None)
