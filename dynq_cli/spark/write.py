"""Write an extraction: a directory of changes, atomically.

    OUT/RELATION/part-*.parquet   the changes, sorted, timestamps as microseconds
    OUT/_batch.json               the batch id: source, from, to; and how the changes were extracted
    OUT/_SUCCESS                  the job finished

The directory is written under a hidden name next to its target, synced, and renamed: a job that fails or is killed
leaves nothing that `dynq apply` would read. The same changes give the same files.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.spark.errors import explained
from dynq_cli.spark.files import Files

BATCH_FILE, SUCCESS = "_batch.json", "_SUCCESS"
ROWS_PER_FILE = 1_000_000
_LEFT_OVER = 7 * 24 * 3600 * 1000  # milliseconds: no job runs that long


@dataclass(frozen=True)
class Batch:
    """The batch of an extraction: the changes of a source after `start`, up to `stop`, and how it was made."""

    source: str
    start: str
    stop: str
    relation: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def to_json(self) -> str:
        said = asdict(self)
        named = {"source": said.pop("source"), "from": said.pop("start"), "to": said.pop("stop")}
        return json.dumps(named | said, ensure_ascii=False, indent=1) + "\n"


@dataclass(frozen=True)
class Done:
    """What a job did; its JSON has the interval of its batch, NULLs if there is none."""

    out: str
    batch: Batch | None

    def to_json(self) -> dict[str, Any]:
        said = asdict(self)
        batch = said.pop("batch") or {}
        return said | {"source": batch.get("source"), "from": batch.get("start"), "to": batch.get("stop")}


class Target:
    """The target directory of an extraction. UsageError if something else exists there."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._files = Files(spark)
        with explained(path):
            self.path = self._files.absolute(path.rstrip("/") or path)
        self._shown_path = path
        folder, name = os.path.split(self.path)
        self._folder, self._hidden = folder, f".{name}."
        self._unfinished = os.path.join(folder, f"{self._hidden}{secrets.token_hex(6)}.unfinished")

    def is_there(self) -> bool:
        """Whether the target exists."""
        with explained(self._shown_path):
            return self._files.exists(self.path)

    def holds(self, batch: Batch) -> bool:
        """Whether the target is this extraction already. UsageError if it is anything else."""
        with explained(self._shown_path):
            if not self._files.exists(self.path):
                return False
            there = batch_in(self._files, self.path)
            if there == json.loads(batch.to_json()):
                return True
        raise self._taken(there)

    def is_of(self, source: str) -> bool:
        """Whether the target is an extraction of this source. UsageError if it is anything else."""
        with explained(self._shown_path):
            if not self._files.exists(self.path):
                return False
            there = batch_in(self._files, self.path)
            if there is not None and there["source"] == source:
                return True
        raise self._taken(there)

    def _taken(self, there: Mapping[str, Any] | None) -> UsageError:
        what = "something" if there is None else "another extraction"
        return UsageError(f"{self._shown_path} holds {what} already: name a directory that is not there, or remove it")

    def write(
        self,
        changes: DataFrame,
        rows: int,
        order: Sequence[Column],
        batch: Batch,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Write `rows` changes, atomically. Call `ready` just before the final rename.

        O(rows log rows).
        """
        parts = max(1, -(-rows // ROWS_PER_FILE))
        # The file of a row depends only on the row, and its place in the file only on the rows: not on the machine.
        sorted_rows = changes.repartition(parts, *order[:-1]).sortWithinPartitions(*order)
        self.write_in_order({batch.relation: sorted_rows}, batch, ready)

    def write_in_order(
        self, relations: Mapping[str, DataFrame], batch: Batch, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Write the changes of several relations, in the order of their frames, atomically; see `write`."""
        self._sweep()
        files = self._files
        try:
            with explained(self._shown_path):
                for name, rows in relations.items():
                    _write_parquet(rows, os.path.join(self._unfinished, name))
                files.write(os.path.join(self._unfinished, BATCH_FILE), batch.to_json())
                files.write(os.path.join(self._unfinished, SUCCESS), "")
                files.sync(self._unfinished)
            ready()
            with explained(self._shown_path):
                files.rename(self._unfinished, self.path)
                files.sync_entry(self.path)
        except OSError as error:
            raise DynqError(f"{self._shown_path} cannot be written: {error.strerror or error}") from error
        finally:
            with suppress(Exception):
                files.remove(self._unfinished)

    def write_texts(self, lines: DataFrame) -> None:
        """Write a column of lines as text files, atomically."""
        self._sweep()
        try:
            with explained(self._shown_path):
                lines.coalesce(1).write.text(self._unfinished)
                self._files.sync(self._unfinished)
                self._files.rename(self._unfinished, self.path)
        finally:
            with suppress(Exception):
                self._files.remove(self._unfinished)

    def _sweep(self) -> None:
        """Remove hidden directories of jobs that were killed long ago."""
        with suppress(Exception):
            old = time.time() * 1000 - _LEFT_OVER
            for name in self._files.names(self._folder):
                path = os.path.join(self._folder, name)
                mine = re.fullmatch(re.escape(self._hidden) + r"[0-9a-f]{12}\.unfinished", name)
                if mine and self._files.modified(path) < old:
                    self._files.remove(path)


def batch_in(files: Files, path: str) -> Mapping[str, Any] | None:
    """Read the batch of the extraction in a directory; None if there is no complete extraction."""
    known = os.path.join(path, BATCH_FILE)
    if not (files.exists(os.path.join(path, SUCCESS)) and files.exists(known)):
        return None
    try:
        said = json.loads(files.read(known))
    except ValueError:
        return None
    return said if isinstance(said, dict) and {"source", "from", "to"} <= said.keys() else None


def in_order(rows: DataFrame, many: int, order: Sequence[str]) -> DataFrame:
    """Sort rows across files."""
    parts = max(1, -(-many // ROWS_PER_FILE))
    spread = rows.repartitionByRange(parts, *order) if parts > 1 else rows.repartition(1)
    return spread.sortWithinPartitions(*order)


def _write_parquet(rows: DataFrame, path: str) -> None:
    # `_SUCCESS` belongs to the whole directory: a part of it must not look complete.
    writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer.option("compression", "zstd").parquet(path)
