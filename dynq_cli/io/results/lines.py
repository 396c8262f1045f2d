"""Record batches as lines of CSV or JSON.

CSV: a header, then a line per row; a NULL is empty, the empty string is `""`, and a text is quoted only where it has a
comma, a quote or a line break, its quotes doubled. JSON: an object per line, its keys in the order of the columns;
integers are numbers, decimals strings, and so are NaN and the infinities, which JSON has no number for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dynq_cli.io.results.forms import Sink
from dynq_cli.io.results.texts import texts, used_bytes

# What is written at once: enough for whole columns to be worth it, far below the 2 GiB that an array of texts holds.
_ROWS, _BYTES = 65536, 32 << 20
_QUOTED = tuple(b'",\r\n')


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices of bounded size; a row that is larger stands alone."""
    if batch.num_rows > 1 and (batch.num_rows > _ROWS or batch.nbytes > _BYTES):
        half = batch.num_rows // 2
        yield from pieces(batch.slice(0, half))
        yield from pieces(batch.slice(half))
    elif batch.num_rows:
        yield batch


def write_lines(groups: Iterator[pa.Table], sink: Sink, lines: Callable[[pa.RecordBatch], pa.Buffer]) -> None:
    """Write the lines of all groups, and flush."""
    for group in groups:
        for batch in group.to_batches():
            for piece in pieces(batch):
                sink.write(lines(piece))
    sink.flush()


def csv_header(schema: pa.Schema) -> bytes:
    """The line with the columns' names."""
    names = _quoted(pa.array(schema.names, pa.string()))
    return (",".join(names.to_pylist()) + "\n").encode()


def csv_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """The lines of a batch. O(bytes)."""
    parts: list[pa.Array | str] = []
    for column in batch.columns:
        parts += [csv_texts(column), ","]
    parts[-1:] = ["\n"]
    return _joined(parts, batch.num_rows)


def json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """The lines of a batch. O(bytes)."""
    before = "{"
    parts: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [f"{before}{json.dumps(name, ensure_ascii=False)}:", json_texts(column)]
        before = ","
    parts.append("}\n" if parts else "{}\n")
    return _joined(parts, batch.num_rows)


def json_objects(batches: Iterable[pa.RecordBatch]) -> str:
    """The rows of batches as JSON objects with commas between them. O(bytes).

    A text may hold any line break of Unicode; only the line feed ends a row.

    >>> json_objects([pa.record_batch({"a": ["x\\u2028y", "z"]})])
    '{"a":"x\\u2028y"},{"a":"z"}'
    """
    return b",".join(line for batch in batches for line in bytes(json_lines(batch)).split(b"\n")[:-1]).decode()


def csv_texts(array: pa.Array) -> pa.Array:
    """Each value as it stands in CSV, NULL as NULL."""
    found = texts(array)
    return _quoted(found) if _is_text(array.type) or _is_binary(array.type) else found


def json_texts(array: pa.Array) -> pa.Array:
    """Each value as JSON."""
    found = texts(array)
    kind = array.type
    if _is_text(kind):
        found = _in_quotes(_escaped(found))
    elif pt.is_floating(kind):
        named = pc.if_else(
            pc.equal(found, "inf"), '"Infinity"', pc.if_else(pc.equal(found, "-inf"), '"-Infinity"', '"NaN"')
        )
        found = pc.if_else(pc.is_finite(array), found, named)
    elif not (pt.is_integer(kind) or pt.is_boolean(kind)):
        found = _in_quotes(found)
    return found.fill_null("null")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind))


def _quoted(array: pa.Array) -> pa.Array:
    used = used_bytes(array)
    needs = pc.equal(pc.binary_length(array), 0)
    if used[list(_QUOTED)].any():
        needs = pc.or_(needs, pc.match_substring_regex(array, '[",\r\n]'))
    if not pc.any(needs).as_py():
        return array
    return pc.if_else(needs, _in_quotes(pc.replace_substring(array, '"', '""')), array)


def _escaped(array: pa.Array) -> pa.Array:
    used = used_bytes(array)
    for char in ("\\", '"', *(chr(code) for code in range(32))):
        if used[ord(char)]:
            array = pc.replace_substring(array, char, json.dumps(char)[1:-1])
    return array


def _in_quotes(array: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', array, '"', "")


def _joined(parts: list[pa.Array | str], rows: int) -> pa.Buffer:
    """The rows' parts, one row after the other."""
    if rows == 0 or all(isinstance(part, str) for part in parts):
        return pa.py_buffer("".join(map(str, parts)).encode() * rows)
    # The texts of an array lie one behind the other in memory: that is the whole piece of the file already.
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="").buffers()[2]
