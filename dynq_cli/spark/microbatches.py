"""The batches of a stream into a state, in turn, each exactly once, whenever a process ends.

    take(batch, files)   the state has the batch as its last one afterwards, as one version

Whoever hands out batches (Spark, by its checkpoint) numbers them from 0 without a gap, and hands the one that was cut
short out again, with the same files. The state notes a batch in the manifest that makes its changes a version, so its
last batch says everything: batch n is new where the last one is n - 1, and known where it is n. Anything else means
that the checkpoint and the state are not of one history, as when one of them is lost or was put back to an earlier
moment: files would be left out or applied twice. That is refused, before anything is applied.

A batch on its way is an extraction directory, with the files under the names that they have.
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
        """The batch with files of these names."""
        text = "\n".join(sorted(names)).encode("utf-8", "surrogateescape")
        return MicroBatch(checkpoint, number, hashlib.sha256(text).hexdigest()[:_DIGEST])

    @staticmethod
    def parse(text: str) -> MicroBatch | None:
        """The batch that a text names; None if it names none.

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
    """Where batches go. `apply` takes an extraction directory into the state; `fetch` puts a file to a new name.

    `source` is what the state calls the stream, `checkpoint` what a message calls its checkpoint, and `folder` is where
    a batch on its way is put together.
    """

    state: Path
    source: str
    checkpoint: str
    folder: Path
    apply: Callable[[str], object]
    fetch: Callable[[str, str], None]

    def take(self, here: MicroBatch, files: Mapping[str, str]) -> bool:
        """Apply a batch, unless the state has it; whether it was applied. `files` are paths by name.

        RejectedError if the state cannot have it next, or if a log is refused: the state is as it was.
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
        """The batch that the state has last, or nothing."""
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
        """The files of a batch as an extraction."""
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
