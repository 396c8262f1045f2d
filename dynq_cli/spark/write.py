"""An extraction: a directory of changes that is there whole or not at all.

    OUT/RELATION/part-*.parquet   the changes, sorted, timestamps as microseconds
    OUT/_batch.json               what they are: source, from, to; and how they were extracted
    OUT/_SUCCESS                  the job finished

It is written under a hidden name beside its place, made safe on disk, and renamed: a job that fails or is killed
leaves nothing that `dynq apply` takes. The same changes give the same files.
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
from dynq_cli.spark.files import Files
from dynq_cli.spark.said import explained

BATCH_FILE, SUCCESS = "_batch.json", "_SUCCESS"
ROWS_PER_FILE = 1_000_000
_LEFT_OVER = 7 * 24 * 3600 * 1000  # milliseconds: no job is at work for so long


@dataclass(frozen=True)
class Batch:
    """What an extraction holds: what happened to a source after `start` up to `stop`; and how it was made."""

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


class Target:
    """The directory that an extraction is to become. UsageError if something else is there."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._files = Files(spark)
        with explained(path):
            self.path = self._files.absolute(path.rstrip("/") or path)
        self._said = path
        folder, name = os.path.split(self.path)
        self._folder, self._hidden = folder, f".{name}."
        self._unfinished = os.path.join(folder, f"{self._hidden}{secrets.token_hex(6)}.unfinished")

    def is_there(self) -> bool:
        """Whether anything is there."""
        with explained(self._said):
            return self._files.exists(self.path)

    def holds(self, batch: Batch) -> bool:
        """Whether this very extraction is there already. UsageError if another one, or anything else, is."""
        with explained(self._said):
            if not self._files.exists(self.path):
                return False
            there = batch_in(self._files, self.path)
            if there == json.loads(batch.to_json()):
                return True
        raise self._taken(there)

    def is_of(self, source: str) -> bool:
        """Whether an extraction of a source is there. UsageError if one of another source, or anything else, is."""
        with explained(self._said):
            if not self._files.exists(self.path):
                return False
            there = batch_in(self._files, self.path)
            if there is not None and there["source"] == source:
                return True
        raise self._taken(there)

    def _taken(self, there: Mapping[str, Any] | None) -> UsageError:
        what = "something" if there is None else "another extraction"
        return UsageError(f"{self._said} holds {what} already: name a directory that is not there, or remove it")

    def write(
        self,
        changes: DataFrame,
        rows: int,
        order: Sequence[Column],
        batch: Batch,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Write the changes, `rows` of them; all or nothing. `ready` is called when only their name is missing.

        O(rows log rows).
        """
        parts = max(1, -(-rows // ROWS_PER_FILE))
        # Which file a row is in depends on the row alone, and where it stands there on the others: not on the machine.
        sorted_rows = changes.repartition(parts, *order[:-1]).sortWithinPartitions(*order)
        self.write_in_order({batch.relation: sorted_rows}, batch, ready)

    def write_in_order(
        self, relations: Mapping[str, DataFrame], batch: Batch, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Write the changes of relations, rows as they stand in their frames; all or nothing, see `write`."""
        self._sweep()
        files = self._files
        try:
            with explained(self._said):
                for name, rows in relations.items():
                    _write_parquet(rows, os.path.join(self._unfinished, name))
                files.write(os.path.join(self._unfinished, BATCH_FILE), batch.to_json())
                files.write(os.path.join(self._unfinished, SUCCESS), "")
                files.sync(self._unfinished)
            ready()
            with explained(self._said):
                files.rename(self._unfinished, self.path)
                files.sync_entry(self.path)
        except OSError as error:
            raise DynqError(f"{self._said} cannot be written: {error.strerror or error}") from error
        finally:
            with suppress(Exception):
                files.remove(self._unfinished)

    def write_texts(self, lines: DataFrame) -> None:
        """Write lines of text, a column each; all or nothing."""
        self._sweep()
        try:
            with explained(self._said):
                lines.coalesce(1).write.text(self._unfinished)
                self._files.sync(self._unfinished)
                self._files.rename(self._unfinished, self.path)
        finally:
            with suppress(Exception):
                self._files.remove(self._unfinished)

    def _sweep(self) -> None:
        """Remove what jobs left that were killed long ago."""
        with suppress(Exception):
            old = time.time() * 1000 - _LEFT_OVER
            for name in self._files.names(self._folder):
                path = os.path.join(self._folder, name)
                mine = re.fullmatch(re.escape(self._hidden) + r"[0-9a-f]{12}\.unfinished", name)
                if mine and self._files.modified(path) < old:
                    self._files.remove(path)


def batch_in(files: Files, path: str) -> Mapping[str, Any] | None:
    """What the extraction in a directory says that it is; None if there is none, or not a whole one."""
    known = os.path.join(path, BATCH_FILE)
    if not (files.exists(os.path.join(path, SUCCESS)) and files.exists(known)):
        return None
    try:
        said = json.loads(files.read(known))
    except ValueError:
        return None
    return said if isinstance(said, dict) and {"source", "from", "to"} <= said.keys() else None


def in_order(rows: DataFrame, many: int, order: Sequence[str]) -> DataFrame:
    """Rows in an order that goes on from one file to the next."""
    parts = max(1, -(-many // ROWS_PER_FILE))
    spread = rows.repartitionByRange(parts, *order) if parts > 1 else rows.repartition(1)
    return spread.sortWithinPartitions(*order)


def _write_parquet(rows: DataFrame, path: str) -> None:
    # The mark of success is the whole directory's: half of one must not pass for all of it.
    writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer.option("compression", "zstd").parquet(path)
