"""Find the data files below the paths of a command line, their formats, and the relation of each.

A file belongs to the relation its name says up to the first dot. The `part-*` files of a
directory, as Spark writes them, belong to the relation their directory's name says.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dynq_cli.errors import BlockedError, RejectedError, UsageError
from dynq_cli.io.lake_tables import refuse_lake_table
from dynq_cli.spec.shown import visible

Format = Literal["parquet", "csv", "arrow", "jsonl"]

_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_LONGEST_REASON = 1 << 20
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
# In a directory whose logs `dynq run` set aside: it is not read as logs.
SET_ASIDE_MARK = "_QUARANTINE"
# The name of a file that says why a log was set aside, behind that of the log, and what it says.
REASON = ".reason.json"
REASON_FIELDS = frozenset(["log", "reason", "code", "time"])
_MAGIC: dict[bytes, Format] = {b"PAR1": "parquet", b"ARROW1": "arrow"}


@dataclass(frozen=True)
class DataFile:
    """A file, its format, and the relation its name says; `path` is as the user wrote it."""

    path: str
    format: Format
    relation: str


def find_data_files(paths: Iterable[str]) -> list[DataFile]:
    """The data files that `paths` mean: files themselves, and those below directories, by name.

    RejectedError for a table of Delta, Iceberg or Hudi, whose files are not its rows.
    """
    return [file for path in paths for file in _below(path)]


def _below(path: str) -> Iterator[DataFile]:
    refuse_lake_table(path)
    refuse_set_aside(path)
    if not os.path.isdir(path):
        yield DataFile(path, format_of(path), _relation(Path(path)))
        return
    found: list[str] = []
    for folder, folders, names in os.walk(path):
        if folder != path:
            _refuse_folder(folder)
        folders[:] = sorted(f for f in folders if not f.startswith(("_", ".")) and not is_set_aside(f"{folder}/{f}"))
        found += (os.path.join(folder, name) for name in sorted(names) if _is_data(name))
    if not found:
        raise UsageError(f"there are no data files below {path}: looked for {' '.join(_FORMATS)}")
    for name in found:
        yield DataFile(name, format_of(name), _relation(Path(name)))


def is_set_aside(folder: str) -> bool:
    """Whether a directory holds logs that `dynq run --quarantine` set aside."""
    return os.path.lexists(os.path.join(folder, SET_ASIDE_MARK))


def refuse_set_aside(path: str) -> None:
    """UsageError for a directory with logs that `dynq run --quarantine` set aside."""
    if is_set_aside(path):
        raise UsageError(
            f"{visible(path)} holds logs that were set aside\n"
            "  hint: mend them and put them back into the inbox, or name the files that are to be read"
        )


def is_reason(path: str) -> bool:
    """Whether a file says why a log was set aside; OSError if it cannot be read."""
    if not path.endswith(REASON) or os.path.getsize(path) > _LONGEST_REASON:
        return False
    with open(path, "rb") as file:
        text = file.read()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.keys() == REASON_FIELDS


def _refuse_folder(folder: str) -> None:
    refuse_lake_table(folder)
    if "=" in os.path.basename(folder):
        raise RejectedError(f"{folder}: the column of a partition is not in its files; write without partitionBy")


def _is_data(name: str) -> bool:
    return not name.startswith(("_", ".")) and _format_by_name(name) is not None


def format_of(path: str) -> Format:
    """The format of a file; UsageError where there is none, or no file that can be read twice."""
    if not os.path.exists(path):
        raise UsageError(f"there is no file {path}")
    if not path.isprintable() and any("\udc80" <= c <= "\udcff" for c in path):
        raise UsageError(f"the name {path} is not UTF-8, and Arrow opens no other: rename the file")
    if not os.path.isfile(path):
        raise UsageError(f"{path} is a pipe or a device, and files are read twice: write it to a file first")
    known = known_format(path)
    if known is None:
        raise UsageError(f"{path} has no extension that says its format: name it with one of {' '.join(_FORMATS)}")
    return known


def known_format(path: str) -> Format | None:
    """The format that the name of a file or its first bytes say, if they do."""
    known = _format_by_name(os.path.basename(path))
    if known is not None:
        return known
    try:
        with open(path, "rb") as file:
            start = file.read(8)
    except OSError as error:
        raise unreadable(path, error) from error
    return next((known for magic, known in _MAGIC.items() if start.startswith(magic)), None)


def unreadable(path: str, error: OSError) -> RejectedError:
    """What the system says about a file that it does not let us read.

    A file without permission is refused by itself; anything else, such as a failing disk, says nothing about the file.
    """
    of = RejectedError if error.errno == errno.EACCES else BlockedError
    return of(f"{path} cannot be read: {error.strerror or error}")


def _format_by_name(name: str) -> Format | None:
    path = Path(name.lower())
    suffix = path.with_suffix("").suffix if path.suffix in _COMPRESSED else path.suffix
    return _FORMATS.get(suffix)


def _relation(path: Path) -> str:
    named = path.absolute().parent if path.name.startswith("part-") else path
    return relation_name(named.name.split(".")[0])


def relation_name(text: str) -> str:
    """A text as the name of a relation.

    >>> relation_name("my orders"), relation_name("2024")
    ('my_orders', 'r_2024')
    """
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"r_{name}"
