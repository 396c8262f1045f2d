"""`run`: apply the new logs of a folder, then write the outputs of the spec. Meant to be repeated.

    run(state, inbox)      afterwards, all valid logs are applied and all outputs are of the version in force

A run stops at a refused log, or, with a quarantine, sets the log aside and continues (`quarantine`).

The outputs of a run's last version are written exactly once, even if the process is killed at any moment:

    stage      write every output next to its target, under a hidden name with the version
    note       record the version in the manifest, and move the marks of its diffs: the commit of the outputs
    reveal     rename each output to its target

Mirrors come last: each has its version in a transaction of its own (`mirrors`).

A run first writes missing outputs of the version in force. Staged files of the noted version are revealed, never
written again. Paths are relative to the working directory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dynq_cli.atomic import atomic_file, make_directories, sync_directory
from dynq_cli.errors import DynqError, RejectedError, UnfinishedError, UsageError
from dynq_cli.io.results.counts import count_form_of, count_text
from dynq_cli.io.results.forms import form_of
from dynq_cli.phases import Phase, phase
from dynq_cli.session import mirrors
from dynq_cli.session.marks import make_missing, mark_of, marks_of
from dynq_cli.spec.model import CLOCK
from dynq_cli.spec.shown import visible
from dynq_cli.storage.layout import RUN_LOCK
from dynq_cli.storage.lock import holding, writing_to
from dynq_cli.storage.state import State, StrPath
from dynq_cli.storage.state import open as open_state

if TYPE_CHECKING:
    import pyarrow as pa

    from dynq_cli.io.logs.model import Group
    from dynq_cli.session.apply_logs import Outcome, Refused
    from dynq_cli.session.quarantine import Quarantine, Rehearsed
    from dynq_cli.spec.model import Output

_STAGED = ".staged"
_MOST_NAMED = 5


@dataclass(frozen=True)
class Ran:
    """The result of a run: the version in force, the outcome of each log, the paths of written outputs."""

    version: int
    applied: tuple[Outcome, ...]
    written: tuple[str, ...]


def run(
    state: StrPath,
    inbox: str,
    tell: Callable[[Outcome], None] = lambda outcome: None,
    wrote: Callable[[str], None] = lambda path: None,
    progress: Callable[[int], None] = lambda rows: None,
    quarantine: str | None = None,
    *,
    dry_run: bool = False,
    now: int | None = None,
) -> Ran:
    """Apply the new logs in `inbox`, by name, then write all outputs; call `tell` per log and `wrote` per output.

    RejectedError at the first log that is refused, when the outputs of the version before it are written; LockedError,
    before anything, if another process writes to the state or runs on it. With `quarantine` logs that are refused are
    set aside into that directory, the others are applied, and RejectedError comes last. With `dry_run` the same is told
    of, and nothing is changed; no lock is needed. The clock moves to `now`, by default the time of the system, also if
    there is no new log.
    """
    with ExitStack() as stack:
        view = stack.enter_context(open_state(state))
        view.now = now
        if not dry_run:
            stack.enter_context(_alone(Path(state)))
        return run_on(view, Path(state), inbox, tell, wrote, progress, quarantine, dry_run=dry_run)


def run_on(
    view: State,
    directory: Path,
    inbox: str,
    tell: Callable[[Outcome], None] = lambda outcome: None,
    wrote: Callable[[str], None] = lambda path: None,
    progress: Callable[[int], None] = lambda rows: None,
    quarantine: str | None = None,
    *,
    dry_run: bool = False,
) -> Ran:
    """As `run`, on an open state by a caller that holds the lock of `run`, unless it is a dry run."""
    from dynq_cli.session.apply_logs import Options, apply_logs

    outcomes: list[Outcome] = []
    written: list[str] = []

    def took(outcome: Outcome) -> None:
        outcomes.append(outcome)
        tell(outcome)

    def revealed(path: str) -> None:
        written.append(path)
        wrote(path)

    with ExitStack() as stack:
        if not os.path.isdir(inbox):
            raise UsageError(f"{inbox} is no directory\n  hint: name the folder that change logs are put into")
        if view.now is not None:
            # No log is to blame for it, and set aside.
            view.refuse_past()
        refuse = None
        if quarantine is not None:
            from dynq_cli.session.quarantine import Rehearsed, quarantining

            place = (quarantine, inbox, directory)
            aside = Rehearsed(*place) if dry_run else stack.enter_context(quarantining(*place))
            refuse = _refusing(aside, inbox)
        outputs = _Outputs(view, directory, revealed)
        if not dry_run:
            outputs.reveal_noted()
            make_missing(view)
            if view.version > 0:  # the outputs of version 0, made by init, are written only if there is no new log
                outputs.write_if_behind()
            # Most diffs begin where this run does; then nothing has to be gone back over.
            stack.enter_context(view.telling(outputs.compared()))
        refused: RejectedError | None = None
        try:
            apply_logs(view, [inbox], Options(inbox=True, dry_run=dry_run), took, progress, refuse=refuse)
        except RejectedError as error:
            refused = error
        version = max((o.version for o in outcomes if o.version is not None), default=view.version)
        failed: list[DynqError] = []
        if dry_run:
            outputs.tell_behind(version)
            for output in mirrors.behind(view, version):
                revealed(output.target)
        else:
            if refused is None and view.spec.relation(CLOCK) is not None and not any(o.version for o in outcomes):
                version = view.tick()
            outputs.write_if_behind()
            failed = mirrors.sync(view, directory, lambda done: revealed(done.line()))
            version = view.version
        if refused is None and quarantine is not None:
            refused = _summary(outcomes, inbox, quarantine, dry_run=dry_run)
        if refused is not None:
            raise _with_failed(refused, failed)
        if failed:
            raise _with_failed(failed[0], failed[1:])
        return Ran(version, tuple(outcomes), tuple(written))


def _with_failed(error: DynqError, failed: Sequence[DynqError]) -> DynqError:
    """Return an error that also tells of mirrors that failed."""
    return type(error)("\n".join(map(str, [error, *failed]))) if failed else error


def _refusing(aside: Quarantine | Rehearsed, inbox: str) -> Refused:
    """Return a function that sets a refused log aside, unless it may be unfinished, or is the whole inbox."""

    def refuse(group: Group, error: DynqError) -> Outcome:
        from dynq_cli.session.apply_logs import Outcome

        if group.path == inbox:  # links to it, and links to nothing, are entries like others
            raise RejectedError(f"{error}\n  it is the inbox itself, so it is not set aside")
        if isinstance(error, UnfinishedError):
            return Outcome(group.path, None, reason=str(error), refused=True)
        done = aside.take(group.path, error)
        stays = (f"{group.path} could not leave the inbox: {done.stays}",) if done.stays else ()
        return Outcome(group.path, None, reason=str(error), refused=True, set_aside=done.path, warnings=stays)

    return refuse


def _summary(outcomes: Sequence[Outcome], inbox: str, quarantine: str, *, dry_run: bool) -> RejectedError | None:
    """Return the error of a run that refused logs and continued."""
    aside = [outcome.path for outcome in outcomes if outcome.set_aside]
    unfinished = [outcome.path for outcome in outcomes if outcome.refused and not outcome.set_aside]
    said = []
    if aside:
        said.append(f"{'to be ' if dry_run else ''}set aside into {quarantine}: {_listed(aside)}")
    if unfinished:
        said.append(f"not finished, and left in {inbox}: {_listed(unfinished)}")
    if not said:
        return None
    if dry_run:
        return RejectedError(f"{'; '.join(said)}. The other logs would be applied")
    hint = f"\n  hint: mend what was set aside and put it back into {inbox}; the reason is beside each" if aside else ""
    return RejectedError(f"{'; '.join(said)}. The other logs are applied{hint}")


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(visible(path) for path in paths[:_MOST_NAMED]) + more


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the lock of `run`. Other processes may still apply changes between the steps of a run."""
    with writing_to(directory):
        pass  # fail at once if another process is writing
    with holding(directory / RUN_LOCK, f"{directory} is being run on by another process"):
        yield


class _Outputs:
    """Writes the outputs of a state."""

    def __init__(self, state: State, directory: Path, wrote: Callable[[str], None]) -> None:
        self._state = state
        self._directory = directory
        self._wrote = wrote
        self._outputs = [output for output in state.spec.outputs if output.kind != "mirror"]

    def compared(self) -> list[str]:
        """The results whose differences are written, into files or into mirrors."""
        return [o.query for o in self._state.spec.outputs if o.kind in ("diff", "mirror")]

    def write_if_behind(self) -> None:
        """Write the outputs of the version in force, unless they are written."""
        if not self._outputs:
            return
        while self._state.written < (version := self._state.version):
            marks = self._marks()
            for output in self._outputs:
                self._stage(output, version)
            # Another process may have applied changes or moved a mark meanwhile: then stage the outputs again.
            if (self._state.version, self._marks()) == (version, marks):
                self._state.note_written(version, dict.fromkeys(marks, version))
                self._reveal(version)

    def tell_behind(self, version: int) -> None:
        """Report the outputs that would be written for a version."""
        if self._state.written < version or self._state.written < 0:
            for output in self._outputs:
                self._wrote(_filled(output, version))

    def _marks(self) -> dict[str, int]:
        """Return the marks at which the diffs start."""
        marks = self._state.marks
        return {name: marks[name] for name in marks_of(self._state.spec) if name in marks}

    def reveal_noted(self) -> None:
        """Reveal the outputs of the noted version that a killed run has left staged."""
        self._reveal(self._state.written)

    def _target(self, output: Output, version: int) -> Path:
        """Return the target of an output, with symbolic links resolved.

        RejectedError if a link leads out of the working directory, or the target is inside the state.
        """
        path = Path(_filled(output, version))
        target = path.resolve()
        if not (path.is_absolute() or target.is_relative_to(Path.cwd())):
            raise RejectedError(
                f"{output.place}: {path} leads out of the working directory through a symbolic link\n"
                f"  hint: if it is meant, write {target}"
            )
        if target.is_relative_to(self._directory.resolve()):
            raise RejectedError(f"{output.place}: {path} is inside the state\n  hint: write to another directory")
        return target

    def _stage(self, output: Output, version: int) -> None:
        target = self._target(output, version)
        _make_directories(target.parent)
        if target.is_dir():
            raise UsageError(f"{output.place}: cannot write {target}: it is a directory")
        staged = _staged(target, version)
        _sweep(output, staged)
        with atomic_file(str(staged)) as file:
            if output.kind == "model":
                from dynq_cli.io.results.models import fits_text

                model = self._state.model(output.query)
                fits = self._state.fits(model.name)
                file.write(f"{fits_text(fits, version, has_groups=bool(model.per))}\n".encode())
            elif output.kind == "count":
                counts = self._state.counts(output.query)
                form = count_form_of(output.path)
                file.write(f"{count_text(counts.rows, counts.distinct, version, form)}\n".encode())
            else:
                self._write_rows(output, file)

    def _write_rows(self, output: Output, file: BinaryIO) -> None:
        from dynq_cli.io.results.multiplicity import expand, expanded_schema
        from dynq_cli.io.results.write import write

        if output.kind == "enum":
            # Ask for the rows last: any other call may move the state to a newer version.
            schema, batches = self._state.schema(output.query), self._state.enum(output.query)
        else:
            from dynq_cli.session.changes import with_batch

            since, until, schema, batches = self._state.diff(output.query, mark_of(output), from_nothing=True)
            schema = with_batch(schema, self._state, output.query, since, until)
        counts = self._state.kept_counts(output.query) if output.kind == "enum" else None
        total = None if counts is None else counts.rows if output.expand else counts.distinct
        if output.expand:
            batches, schema = expand(batches, schema), expanded_schema(schema)
        with phase(f"writing {output.path}", total=total) as writing:
            write(_counted(batches, writing), schema, file, form_of(output.path))

    def _reveal(self, version: int) -> None:
        for output in self._outputs:
            target = self._target(output, version)
            staged = _staged(target, version)
            try:
                with suppress(FileNotFoundError):  # a new file keeps its default permissions
                    os.chmod(staged, stat.S_IMODE(target.stat().st_mode))
                os.replace(staged, target)
                sync_directory(target.parent)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it is revealed already
            except OSError as error:
                raise DynqError(f"cannot write {target}: {error.strerror or error}") from error
            self._wrote(_filled(output, version))


def _counted(batches: Iterator[pa.RecordBatch], writing: Phase) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        writing.add(batch.num_rows)


def _filled(output: Output, version: int) -> str:
    return output.path.replace("{query}", output.query).replace("{version}", str(version))


def _staged(target: Path, version: int) -> Path:
    return target.with_name(f".{target.name}.{version}{_STAGED}")


def _sweep(output: Output, staged: Path) -> None:
    """Remove staged files of this output that killed runs left for versions that were never noted."""
    name = re.escape(output.path.replace("{query}", output.query).rpartition("/")[2])
    versioned = name.replace(re.escape("{version}"), "[0-9]+")
    # A file that was being written is still under the temporary name of `atomic_file`.
    left = re.compile(rf"\.{{1,2}}{versioned}\.[0-9]+{re.escape(_STAGED)}(\.[a-z0-9_]+\.tmp)?")
    for entry in os.scandir(staged.parent):
        if entry.name != staged.name and left.fullmatch(entry.name):
            with suppress(OSError):
                os.unlink(entry.path)


def _make_directories(path: Path) -> None:
    try:
        make_directories(path)
    except OSError as error:
        raise DynqError(f"cannot make the directory {path}: {error.strerror or error}") from error
