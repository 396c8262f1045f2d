"""Convert an Arrow table to the changes of a commit: columns by name, optional `_change_type` and `_count`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes
from dynq_cli.engine.codes import Codes
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.frames import exact_numbers
from dynq_cli.engine.ingest import RowError, encode_rows, operations, refuse_losses
from dynq_cli.engine.kernels.fields import Bytes
from dynq_cli.values import change_kinds as k

# Up to this many words are looked up one by one: that is faster than finding the distinct ones.
_FEW = 8
# Most logs group their deletes and inserts: up to this many runs of one word are looked up one by one.
_RUNS = 64


def changes_of(table: pa.Table, base: BaseLayout, dictionaries: Dictionaries, ends: Codes | None = None) -> Changes:
    """Encode a table as changes: one commit, or several with the exclusive `ends`. Raises RowError."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    if len(columns) < table.num_columns:
        # Arrow rejects a name that occurs twice.
        columns = {name: table[name] for name in (*base.order, "_change_type", "_count") if name in columns}
    for column in base.relation.columns:
        if column.name in columns:
            columns[column.name] = exact_numbers(columns[column.name], column)
    kinds = kinds_of(columns["_change_type"]) if "_change_type" in columns else np.zeros(len(table), np.int8)
    counts = counts_of(columns["_count"]) if "_count" in columns else np.ones(len(table), np.int64)
    changes = refuse_losses(encode_rows(columns, kinds, counts, base, dictionaries), base)
    return operations(changes, base, ends=ends)


def kinds_of(words: pa.ChunkedArray) -> Bytes:
    """Map the words of `_change_type` to change kinds. RowError for an unknown word."""
    if not len(words):
        return np.zeros(0, np.int8)
    if len(words) <= _FEW and words.type == pa.string() and not words.null_count:
        words.validate()
        few = [k.WORDS.get(word.as_py(), -1) for word in words]
        if -1 not in few:
            return np.array(few, np.int8)
    seen = _texts(words)
    if seen is not None:
        word = _one_word(*seen)
        if word in k.WORDS:
            return np.full(len(words), k.WORDS[word], np.int8)
        runs = _runs(*seen)
        found = [k.WORDS.get(word, -1) for word in runs.values()]
        if found and -1 not in found:
            return np.repeat(np.array(found, np.int8), np.diff([*runs, len(words)]))
    texts = words.cast(pa.string())
    coded = pa.concat_arrays(texts.chunks).dictionary_encode()
    known = np.array([k.WORDS.get(word.lower(), -1) for word in coded.dictionary.to_pylist()] or [-1], np.int8)
    kinds: Bytes = known[coded.indices.fill_null(0).to_numpy()]
    if coded.null_count:
        kinds = np.where(coded.is_valid(), kinds, np.int8(-1))
    if (kinds < 0).any():
        row = int((kinds < 0).argmax())
        word = texts[row].as_py()
        said = "NULL" if word is None else repr(word)
        raise RowError(row, "_change_type", f"{said} is not one of {', '.join(k.WORDS)}")
    return kinds


def _texts(words: pa.ChunkedArray) -> tuple[np.ndarray, pa.Buffer] | None:
    """Return the offsets and bytes of the words, or None if the bytes are not contiguous."""
    if words.num_chunks != 1 or words.type != pa.string() or words.null_count:
        return None
    array = words.chunk(0)
    array.validate()
    _, places, content = array.buffers()
    return np.frombuffer(places, np.int32, len(array) + 1, 4 * array.offset), content


def _one_word(offsets: np.ndarray, content: pa.Buffer) -> str:
    """Return the word that all rows have, found by comparing neighbouring bytes; else an empty text."""
    many, first, size = len(offsets) - 1, int(offsets[0]), int(offsets[1] - offsets[0])
    if size == 0 or offsets[-1] != first + size * many or (offsets[1:] - offsets[:-1] != size).any():
        return ""
    # Every byte equals that of the row before.
    texts = np.frombuffer(content, np.uint8, size * many, first)
    return texts[:size].tobytes().decode(errors="replace") if (texts[size:] == texts[:-size]).all() else ""


def _runs(offsets: np.ndarray, content: pa.Buffer) -> dict[int, str]:
    """Return the starts of runs of one word with the word, in order; empty unless they are few and quickly found."""
    sizes = np.diff(offsets)
    resized = np.flatnonzero(sizes[1:] != sizes[:-1]) + 1
    if len(resized) > _RUNS or sizes.min() < 1:
        return {}
    starts: set[int] = set()
    for first, stop in pairwise([0, *resized.tolist(), len(sizes)]):
        starts.add(first)
        size = int(sizes[first])
        texts = np.frombuffer(content, np.uint8, int(offsets[stop] - offsets[first]), int(offsets[first]))
        other = np.flatnonzero(texts[size:] != texts[:-size])
        if len(other) > _RUNS * size:
            return {}
        starts.update((other // size + first + 1).tolist())
    if len(starts) > _RUNS:
        return {}
    written = memoryview(content)
    return {i: bytes(written[offsets[i] : offsets[i + 1]]).decode(errors="replace") for i in sorted(starts)}


def counts_of(column: pa.ChunkedArray) -> Codes:
    """Return the copies in `_count`. RowError for less than one."""
    counts: Codes = column.cast(pa.int64()).fill_null(0).to_numpy()
    wrong = counts < 1
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError(row, "_count", f"{counts[row]} copies; write 1 or more")
    return np.ascontiguousarray(counts)
