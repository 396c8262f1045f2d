"""How far a table was extracted: a small file beside the outputs, moved on together with the output it belongs to.

    .SOURCE.watermark.json   {"source", "of", "number", "watermark", "rows", "next"}

An output and this file cannot change in one step, so the file says first what is about to come (`next`: an output and
what holds once it is there), then the output is put in its place, then the file moves on. Whoever finds a `next` looks
for its output: if it is there, the step was taken; if not, it was not. So a job that is killed at any moment neither
loses nor repeats a change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.spark.files import Files
from dynq_cli.spark.said import explained
from dynq_cli.spark.write import batch_in


@dataclass(frozen=True)
class Progress:
    """What was extracted of a source: up to which watermark, by how many jobs, and of how many rows."""

    number: int = 0
    watermark: str | None = None
    rows: int = 0

    @property
    def name(self) -> str:
        """A name for this moment of the source, which no other moment has; empty at the beginning."""
        return f"extraction {self.number} up to {self.watermark}" if self.number else ""


class ProgressFile:
    """See the module. `of` is what the source is: a file that is of something else is refused."""

    def __init__(self, files: Files, out: str, source: str, of: Mapping[str, Any]) -> None:
        self._files = files
        self._source, self._of = source, dict(of)
        safe = re.sub(r"[^\w.-]+", "-", source).strip(".-") or "source"
        self.path = os.path.join(os.path.dirname(out), f".{safe}.watermark.json")
        with explained(self.path):
            self._start = self._settled()

    @property
    def start(self) -> Progress:
        """How far the table was extracted when the file was opened."""
        return self._start

    def announce(self, out: str, then: Progress) -> None:
        """Say which output is about to be put in its place. DynqError if another job was quicker."""
        with explained(self.path):
            if self._settled() != self._start:
                raise DynqError(
                    f"another job extracted {self._source} meanwhile; this one wrote nothing\n  hint: run it again"
                )
            self._save(self._start, {"out": out, **asdict(then)})

    def reach(self, then: Progress) -> None:
        """The output is there."""
        with explained(self.path):
            self._save(then, None)

    def _settled(self) -> Progress:
        """What holds, a step that was taken but not noted included."""
        if not self._files.exists(self.path):
            return Progress()
        try:
            said = json.loads(self._files.read(self.path))
            now = Progress(int(said["number"]), said["watermark"], int(said["rows"]))
            source, of, coming = said["source"], said["of"], said["next"]
            after = None if coming is None else Progress(coming["number"], coming["watermark"], coming["rows"])
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{self.path} is damaged\n  hint: remove it and begin anew, with a state that is new"
            ) from None
        if (source, of) != (self._source, self._of):
            raise UsageError(
                f"{self.path} is of another table, or of other columns of it: {_difference(of, self._of)}\n"
                "  hint: give this source a name of its own with --source NAME, or write elsewhere"
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
