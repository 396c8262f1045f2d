"""The progress of an extraction: a small file beside the outputs, which advances together with each output.

    .SOURCE.watermark.json   {"source", "of", "number", "watermark", "rows", "next"}

An output and this file cannot change atomically together. So first `next` announces an output and the progress that it
brings, then the output is renamed into place, then the file advances. A job that finds a `next` looks for its output:
if it exists, the step was completed; if not, it was not. So a killed job neither loses nor repeats a change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.spark.errors import explained
from dynq_cli.spark.files import Files
from dynq_cli.spark.write import batch_in


@dataclass(frozen=True)
class Progress:
    """The progress of a source: the watermark, the number of jobs, and the number of rows."""

    number: int = 0
    watermark: str | None = None
    rows: int = 0

    @property
    def name(self) -> str:
        """A unique name for this progress of the source; empty at the beginning."""
        return f"extraction {self.number} up to {self.watermark}" if self.number else ""


class ProgressFile:
    """The progress file of a source; see the module. `of` identifies the source: another source's file is refused."""

    def __init__(self, files: Files, out: str, source: str, of: Mapping[str, Any]) -> None:
        self._files = files
        self._source, self._of = source, dict(of)
        safe = re.sub(r"[^\w.-]+", "-", source).strip(".-") or "source"
        self.path = os.path.join(os.path.dirname(out), f".{safe}.watermark.json")
        with explained(self.path):
            self._start = self._settled()

    @property
    def start(self) -> Progress:
        """The progress when the file was opened."""
        return self._start

    def announce(self, out: str, then: Progress) -> None:
        """Announce the next output. DynqError if another job has advanced the file meanwhile."""
        with explained(self.path):
            if self._settled() != self._start:
                raise DynqError(
                    f"another job extracted {self._source} meanwhile; this one wrote nothing\n  hint: run it again"
                )
            self._save(self._start, {"out": out, **asdict(then)})

    def reach(self, then: Progress) -> None:
        """Advance the file: the output is in place."""
        with explained(self.path):
            self._save(then, None)

    def _settled(self) -> Progress:
        """Return the progress, including a completed step that was not recorded."""
        if not self._files.exists(self.path):
            return Progress()
        try:
            said = json.loads(self._files.read(self.path))
            now = Progress(int(said["number"]), said["watermark"], int(said["rows"]))
            source, of, coming = said["source"], said["of"], said["next"]
            after = None if coming is None else Progress(coming["number"], coming["watermark"], coming["rows"])
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{self.path} is damaged\n  hint: remove it and start again, with a new state") from None
        if (source, of) != (self._source, self._of):
            raise UsageError(
                f"{self.path} belongs to another table, or to other columns of it: {_difference(of, self._of)}\n"
                "  hint: give this source its own name with --source NAME, or write to another directory"
            )
        if after is not None and self._is_there(coming["out"], after):
            return after
        return now

    def _is_there(self, out: str, after: Progress) -> bool:
        said = batch_in(self._files, out)
        return said is not None and (said["source"], said["to"]) == (self._source, after.name)

    def _save(self, now: Progress, coming: Mapping[str, Any] | None) -> None:
        said = {"source": self._source, "of": self._of, **asdict(now), "next": coming}
        self._files.replace(self.path, json.dumps(said, ensure_ascii=False, indent=1) + "\n")


def _difference(theirs: Any, mine: Mapping[str, Any]) -> str:
    known = theirs if isinstance(theirs, dict) else {}
    differ = [name for name in mine if known.get(name) != mine[name]]
    return ", ".join(f"{name} was {known.get(name)} and is {mine[name]}" for name in differ) or "another source"
