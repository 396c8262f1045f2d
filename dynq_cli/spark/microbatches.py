"""Apply the micro-batches of a stream to a state, in order, each exactly once, even if a process is killed.

    take(batch, files)   afterwards, the batch is the last one in the state, as one version

Spark's checkpoint numbers batches from 0 without gaps, and repeats an interrupted batch with the same files. The state
records a batch in the manifest that commits its changes. So batch n is new if the last batch of the state is n - 1, and
applied if it is n. Anything else means that checkpoint and state have different histories, because one was lost or
restored from a backup: files would be skipped or applied twice. That is refused before anything is applied.

A batch is collected in an extraction directory, with the original file names.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.logs.identity import BATCH_FILE
from dynq_cli.storage.manifest import read_manifest

_SUCCESS = "_SUCCESS"
_DIGEST = 16


@dataclass(frozen=True)
class MicroBatch:
    """A batch of a checkpoint: its number, and a digest of the names of its files."""

    checkpoint: str
    number: int
    files: str

    @staticmethod
    def of(checkpoint: str, number: int, names: Mapping[str, str]) -> MicroBatch:
        """Build the batch with files of these names."""
        text = "\n".join(sorted(names)).encode("utf-8", "surrogateescape")
        return MicroBatch(checkpoint, number, hashlib.sha256(text).hexdigest()[:_DIGEST])

    @staticmethod
    def parse(text: str) -> MicroBatch | None:
        """Parse the text of a batch; None if it is not one.

        >>> MicroBatch.parse(str(MicroBatch("a-b", 7, "c0ffee")))
        MicroBatch(checkpoint='a-b', number=7, files='c0ffee')
        >>> MicroBatch.parse("yesterday")
        """
        checkpoint, _, rest = text.partition("/")
        number, _, files = rest.partition("/")
        return MicroBatch(checkpoint, int(number), files) if number.isdecimal() and files else None

    def __str__(self) -> str:
        return f"{self.checkpoint}/{self.number}/{self.files}"


@dataclass(frozen=True)
class MicroBatches:
    """Applies batches. `apply` applies an extraction directory to the state; `fetch` links or copies a file.

    `source` is the stream's name in the state, `checkpoint` the name of its checkpoint in messages, and `folder` the
    place where batches are collected.
    """

    state: Path
    source: str
    checkpoint: str
    folder: Path
    apply: Callable[[str], object]
    fetch: Callable[[str, str], None]

    def take(self, here: MicroBatch, files: Mapping[str, str]) -> bool:
        """Apply a batch, unless the state has it; return whether it was applied. `files` are paths by name.

        RejectedError if it is not the next batch, or if a log is refused; then the state is unchanged.
        """
        last = self._last()
        is_new = last != str(here)
        if is_new:
            self._check(here, last)
            self._gather(here, last, files)
            self.apply(str(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)
        return is_new

    def _last(self) -> str:
        """Return the last batch of the state, or an empty text."""
        applied = read_manifest(self.state).sources.get(self.source, ())
        return applied[-1][1] if applied else ""

    def _check(self, here: MicroBatch, last: str) -> None:
        known = MicroBatch.parse(last)
        if last and (known is None or known.checkpoint != here.checkpoint):
            raise self._refused(f"the state was fed from another one, up to {last}")
        number = -1 if known is None else known.number
        if number >= here.number:
            raise self._refused(f"the checkpoint is older than the state, which has batch {number} already")
        if number < here.number - 1:
            raise self._refused(f"the state is older than the checkpoint, and lacks batches up to {here.number - 1}")

    def _refused(self, why: str) -> RejectedError:
        return RejectedError(
            f"the checkpoint {self.checkpoint} and the state {self.state} do not belong together: {why};"
            " nothing was applied\n  hint: put back what belongs together, or make a new state and begin with a new"
            " checkpoint"
        )

    def _gather(self, here: MicroBatch, last: str, files: Mapping[str, str]) -> None:
        """Collect the files of a batch in an extraction directory."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name, path in files.items():
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            self._fetch(path, str(target))
        named = {"source": self.source, "from": last, "to": str(here)}
        (self.folder / BATCH_FILE).write_text(json.dumps(named), "utf-8")
        (self.folder / _SUCCESS).touch()

    def _fetch(self, path: str, target: str) -> None:
        try:
            self.fetch(path, target)
        except FileNotFoundError:
            raise RejectedError(
                f"{path} is gone, but was not applied yet; nothing of its batch was applied\n  hint: put it back"
            ) from None
        except OSError as error:
            raise DynqError(f"{path} cannot be read: {error.strerror or error}") from error
