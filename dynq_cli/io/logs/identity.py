"""Identify a log, so that it is applied once.

An extracted log has a batch id: `{"source": …, "from": …, "to": …}` under the key `dynq.batch` in the metadata of a
Parquet or Arrow file, or in the file `_batch.json` of an extraction. Any other log is identified by its relation, its
name, and a hash of all its bytes, because Parquet and Arrow do not detect most flipped bits. The names of an
extraction's parts include their directory, since jobs use the same part names every day.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import xxhash

from dynq_cli.errors import RejectedError, UnfinishedError
from dynq_cli.io import read_arrow
from dynq_cli.io.damage import refusing
from dynq_cli.io.data_files import unreadable
from dynq_cli.io.logs.model import BatchId, Group, LogFile
from dynq_cli.lazy import Lazy
from dynq_cli.phases import phase

if TYPE_CHECKING:
    from dynq_cli.io import read_parquet
else:
    read_parquet = Lazy("dynq_cli.io.read_parquet")

METADATA_KEY = b"dynq.batch"
BATCH_FILE = "_batch.json"

_BLOCK = 1 << 20
_LONGEST_ID = 64 << 10
SUCCESS = "_SUCCESS"
_SHAPE = '{"source": ..., "from": ..., "to": ...}, each a string or an integer'


@dataclass(frozen=True)
class Identity:
    """A file without a batch id: the relation its name says or "", its own name, and a hash of its content.

    `other_names` are those that it had if the extraction began a directory above or below: a directory that holds
    nothing but finished relations is one extraction, and several as soon as something else is put beside them.
    `stamp` is the file as the system knew it when it was hashed; it changes with every write.
    """

    relation: str
    name: str
    content: str
    length: int
    other_names: tuple[str, ...] = ()
    stamp: tuple[int, ...] = field(default=(), compare=False)


def identity_of(file: LogFile, extractions: Sequence[str] = ()) -> Identity:
    """Compute the identity of a file; `extractions` are those of its group. O(bytes), streamed."""
    digest = xxhash.xxh3_128()
    length = 0
    reading = phase(f"reading {os.path.basename(file.path)}", "bytes")
    with refusing(file.path, file.format), open(file.path, "rb", buffering=0) as source, reading:
        status = os.fstat(source.fileno())
        reading.total = status.st_size
        while block := source.read(_BLOCK):
            digest.update(block)
            length += len(block)
            reading.add(len(block))
    name, *others = _names(file.path, extractions)
    relation, content = file.relation or "", digest.hexdigest()
    return Identity(relation, name, content, length, tuple(others), _stamp(status))


def refuse_changed(file: LogFile, identity: Identity) -> None:
    """UnfinishedError if a file was written to since it was hashed: the rows that were read may not be those."""
    with refusing(file.path, file.format):
        now = _stamp(os.stat(file.path))
    if now != identity.stamp:
        raise UnfinishedError(
            f"{file.path} was changed while it was read\n"
            "  hint: apply it once its writer is done; let writers rename a finished file into place"
        )


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _names(path: str, extractions: Sequence[str]) -> list[str]:
    """The name of a file, and the others that it may have been known by.

    A relation's directory inside the extraction was an extraction itself only if it has a `_SUCCESS` of its own. Else
    the same name belongs to another job's files, whose rows are to be applied, too.
    """
    folder = _around(path, extractions)
    if folder is None:
        return [os.path.basename(path)]
    above, own = os.path.split(os.path.abspath(folder))
    inside = os.path.relpath(path, folder)
    name = os.path.join(own, inside)
    others = [os.path.join(os.path.basename(above), name)]
    inner, _, below = inside.partition(os.sep)
    was_alone = below and os.path.exists(os.path.join(folder, inner, SUCCESS))
    return [name, *others, inside] if was_alone else [name, *others]


def _around(path: str, extractions: Sequence[str]) -> str | None:
    return next((folder for folder in extractions if path.startswith(os.path.join(folder, ""))), None)


def batch_of(group: Group) -> BatchId | None:
    """Return the batch id in the files of a group, or None. RejectedError if ids differ or are malformed."""
    wholes = {folder: _of_extraction(folder) for folder in group.extractions}
    said: dict[BatchId | None, str] = {}
    for folder, whole in wholes.items():
        if whole is not None and not any(_around(file.path, [folder]) for file in group.files):
            said.setdefault(whole, folder)
    for file in group.files:
        own = _of_file(file)
        inside = _around(file.path, group.extractions)
        around = None if inside is None else wholes[inside]
        if own is not None and around not in (None, own):
            raise RejectedError(
                f"{file.path} says that it is {_shown(own)}, its extraction that it is {_shown(around)}"
            )
        said.setdefault(own or around, file.path)
    if len(said) > 1:
        (one, one_path), (other, other_path) = list(said.items())[:2]
        raise RejectedError(
            f"{one_path} is {_shown(one)} and {other_path} is {_shown(other)}: they cannot be one version\n"
            "  hint: apply them one by one"
        )
    return next(iter(said), None)


def _shown(batch: BatchId | None) -> str:
    return "of no batch" if batch is None else f"the batch of {batch.source} from {batch.start} to {batch.stop}"


def _of_extraction(folder: str) -> BatchId | None:
    path = os.path.join(folder, BATCH_FILE)
    if not os.path.lexists(path):
        return None
    if os.path.islink(path):
        raise RejectedError(f"{path} is a symbolic link: put the file itself there")
    try:
        with open(path, "rb") as file:
            text = file.read(_LONGEST_ID + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    return _parse(text, path)


def _of_file(file: LogFile) -> BatchId | None:
    if file.format not in ("parquet", "arrow"):
        return None
    with refusing(file.path, file.format):
        schema = read_parquet.schema(file.path) if file.format == "parquet" else read_arrow.schema(file.path)
        text = (schema.metadata or {}).get(METADATA_KEY)
    return None if text is None else _parse(text, f"the metadata {METADATA_KEY.decode()} of {file.path}")


def _parse(text: bytes, where: str) -> BatchId:
    wrong = RejectedError(f"{where} is no batch id: it has to be {_SHAPE}")
    try:
        said = json.loads(text) if len(text) <= _LONGEST_ID else None
    except (ValueError, RecursionError):
        raise wrong from None
    values = [said.get(key) for key in ("source", "from", "to")] if isinstance(said, dict) else []
    if not values or not all(type(value) in (str, int) for value in values):
        raise wrong
    source, start, stop = map(str, values)
    return BatchId(source, start, stop)
