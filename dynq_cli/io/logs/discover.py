"""Find the log files below the paths of a command line, in groups; each group becomes one version.

A file is a group. A directory means what is in it, by name: files, and directories likewise. An extraction (a directory
that a job such as Spark's wrote and closed with `_SUCCESS`) is one group: `part-*` files, or one directory of them
per relation, with `_SUCCESS` in the whole or in each; it may have no rows and yet be a batch. A directory of parts
that no job finished is refused, and so is a table of Delta, Iceberg or Hudi. Names that begin with `_` or `.` are
skipped, and so are directories of logs that were set aside; nothing outside of a directory is reached through a
symbolic link in it.

An inbox is a directory that logs are put into: it is an extraction only if it has a `_SUCCESS` of its own. Were it one
for holding finished relations and nothing else, its logs would have other names as soon as something else is put there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from dynq_cli.errors import DynqError, RejectedError, UnfinishedError, UsageError
from dynq_cli.io.data_files import format_of, is_reason, is_set_aside, known_format, refuse_set_aside, unreadable
from dynq_cli.io.lake_tables import refuse_lake_table
from dynq_cli.io.logs.identity import BATCH_FILE, SUCCESS
from dynq_cli.io.logs.model import Group, LogFile
from dynq_cli.spec.shown import visible

_UNFINISHED = "_temporary"
_PART = "part-"
_MOST_NAMED = 3


def find_groups(
    paths: Sequence[str],
    relations: Collection[str],
    *,
    relation: str | None,
    atomic: bool,
    inbox: bool = False,
    keep_refused: bool = False,
    warn: Callable[[str], None] = lambda message: None,
) -> list[Group]:
    """Find the groups below the paths, in order; a directory without logs has none.

    `relation` is what `--relation` says; with `atomic` all files are one group. `warn` hears of files in directories
    that are skipped because nothing says their format. UsageError for a path that is not there or not a log,
    RejectedError for an unfinished extraction, a table of a lake format and a symbolic link that leads out of its
    directory; with `keep_refused` each of these is a group that says so. With `inbox` the paths are inboxes.
    """
    if relation is not None and relation not in relations:
        raise UsageError(f"the spec has no relation {visible(relation)}: it has {', '.join(sorted(relations))}")
    names = _Names(relations, relation)
    groups = [group for path in paths for group in _below(path, names, warn, is_inbox=inbox)]
    refused = None if keep_refused else next((group.refused for group in groups if group.refused is not None), None)
    if refused is not None:
        raise refused
    if not atomic or not groups:
        return groups
    files = tuple(file for group in groups for file in group.files)
    _refuse_twice(files)
    return [Group(_shortened(paths), files, tuple(path for group in groups for path in group.extractions))]


@dataclass(frozen=True)
class _Names:
    """Determines the relation of a file by names."""

    relations: Collection[str]
    given: str | None

    def relation(self, path: str) -> str | None:
        """Return the value of `--relation`, else the file's name, else its directory's, each up to the first dot."""
        folder, name = os.path.split(os.path.abspath(path))
        named = (text.split(".")[0] for text in (name, os.path.basename(folder)))
        return self.given or next((text for text in named if text in self.relations), None)

    def file(self, path: str) -> LogFile:
        return LogFile(path, format_of(path), self.relation(path))


def _below(path: str, names: _Names, warn: Callable[[str], None], *, is_inbox: bool) -> Iterator[Group]:
    refuse_lake_table(path)
    refuse_set_aside(path)
    if os.path.isdir(path):
        yield from _Folder(path, os.path.realpath(path), names, warn, is_inbox=is_inbox).groups()
    else:
        yield Group(path, (names.file(path),))


@dataclass(frozen=True)
class _Folder:
    """A directory. `root` is the real path of the given directory, which no link may leave."""

    path: str
    root: str
    names: _Names
    warn: Callable[[str], None]
    above: tuple[str, ...] = ()
    is_inbox: bool = False

    def groups(self) -> Iterator[Group]:
        try:
            files, folders, refused = self._entries()
            if self._is_extraction(files, folders) and (not refused or self._has(SUCCESS)):
                found = tuple(self._logs())
                # An extraction without rows may still be a batch, which the next batch continues.
                if found or os.path.lexists(os.path.join(self.path, BATCH_FILE)):
                    yield Group(self.path, found, (self.path,))
                return
            self._refuse_unfinished(files)
        except (RejectedError, UsageError) as error:
            yield Group(self.path, (), refused=error)
            return
        inner = {folder.path: folder for folder in folders}
        for path in sorted([*files, *inner, *refused]):
            if path in inner:
                yield from inner[path].groups()
            elif path in refused:
                yield Group(path, (), refused=refused[path])
            else:
                yield from self._file(path)

    def _file(self, path: str) -> Iterator[Group]:
        try:
            if self._is_log(path):
                yield Group(path, (self.names.file(path),))
        except (RejectedError, UsageError) as error:
            yield Group(path, (), refused=error)

    def _entries(self) -> tuple[list[str], list[_Folder], dict[str, DynqError]]:
        """Files, directories, and why an entry is refused."""
        files: list[str] = []
        folders: list[_Folder] = []
        refused: dict[str, DynqError] = {}
        here = os.path.realpath(self.path)
        for name in self._listed():
            path = os.path.join(self.path, name)
            try:
                self._refuse_entry(path, here)
                if not os.path.isdir(path):
                    files.append(path)
                elif not is_set_aside(path):
                    folders.append(_Folder(path, self.root, self.names, self.warn, (*self.above, here)))
            except RejectedError as error:
                refused[path] = error
        return files, folders, refused

    def _refuse_entry(self, path: str, here: str) -> None:
        real = os.path.realpath(path)
        if os.path.commonpath([real, self.root]) != self.root:
            raise RejectedError(
                f"{visible(path)} is a symbolic link that leads out of its directory: name {real} itself"
            )
        if not os.path.exists(path):
            raise RejectedError(f"{visible(path)} is a symbolic link to nothing: remove it")
        if not os.path.isdir(path):
            return
        if real in (*self.above, here):
            raise RejectedError(f"{visible(path)} is a symbolic link to a directory around it: remove it")
        if "=" in os.path.basename(path):
            raise RejectedError(
                f"{visible(path)}: the column of a partition is not in its files; write without partitionBy"
            )
        refuse_lake_table(path)

    def _listed(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.path) if not name.startswith(("_", ".")))
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _is_extraction(self, files: Sequence[str], folders: Sequence[_Folder]) -> bool:
        # Without its own `_SUCCESS`, a directory is an extraction if it contains only finished relations.
        return self._has(SUCCESS) or (
            bool(folders) and not files and not self.is_inbox and all(f._is_finished_relation() for f in folders)
        )

    def _is_finished_relation(self) -> bool:
        return os.path.basename(self.path).split(".")[0] in self.names.relations and self._has(SUCCESS)

    def _logs(self) -> Iterator[LogFile]:
        """Yield the files of an extraction and of its directories."""
        if self._has(_UNFINISHED) and not self._has(SUCCESS):
            raise self._unfinished()
        files, folders, refused = self._entries()
        for error in refused.values():
            raise error
        for path in files:
            # Spark writes parts without rows as empty files without a header.
            if self._is_log(path) and os.path.getsize(path):
                yield self.names.file(path)
        for folder in folders:
            yield from folder._logs()

    def _refuse_unfinished(self, files: Sequence[str]) -> None:
        if self._has(_UNFINISHED) or any(os.path.basename(path).startswith(_PART) for path in files):
            raise self._unfinished()

    def _unfinished(self) -> RejectedError:
        return UnfinishedError(
            f"{self.path} has no {SUCCESS}: the job that wrote it did not finish\n"
            "  hint: run the job again, or name the files that are to be applied one by one"
        )

    def _has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.path, name))

    def _is_log(self, path: str) -> bool:
        if not os.path.isfile(path):
            self.warn(f"{visible(path)} is skipped: it is a pipe or a device")
            return False
        if self._is_reason(path):
            self.warn(f"{visible(path)} is skipped: it says why a log was set aside")
            return False
        if known_format(path) is None:
            self.warn(f"{visible(path)} is skipped: nothing says its format")
            return False
        return True

    @staticmethod
    def _is_reason(path: str) -> bool:
        try:
            return is_reason(path)
        except OSError as error:
            raise unreadable(path, error) from error


def _refuse_twice(files: Sequence[LogFile]) -> None:
    seen: set[str] = set()
    for file in files:
        real = os.path.realpath(file.path)
        if real in seen:
            raise UsageError(f"{file.path} is named twice: one version takes it once")
        seen.add(real)


def _shortened(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(paths[:_MOST_NAMED]) + more
