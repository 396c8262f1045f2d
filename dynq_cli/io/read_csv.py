"""CSV with a header, every field as text: unquoted empty is NULL, `""` is the empty string.

Quotes inside quotes may be doubled or, as Spark writes them, escaped by a backslash.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import csv

from dynq_cli.io.raw import Raw

_BLOCK = 4 << 20


def read(path: str) -> Iterator[Raw]:
    try:
        yield from _read(path)
    except pa.ArrowInvalid as error:
        if "cannot infer number of columns" in str(error):
            raise ValueError(f"it has no header line that ends within {_BLOCK >> 20} MiB") from error
        if "straddling" in str(error):
            raise ValueError(f"a row is longer than {_BLOCK >> 20} MiB, or a quote is never closed") from error
        raise


def _read(path: str) -> Iterator[Raw]:
    parse = csv.ParseOptions(newlines_in_values=True, escape_char="\\", double_quote=True)
    # One thread: only then do errors carry the row's number.
    options = csv.ReadOptions(block_size=_BLOCK, use_threads=False)
    with pa.input_stream(path, compression="detect") as start:
        names = csv.open_csv(start, read_options=options, parse_options=parse).schema.names
    parse.ignore_empty_lines = len(names) > 1
    convert = csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with pa.input_stream(path, compression="detect") as stream:
        reader = csv.open_csv(stream, read_options=options, parse_options=parse, convert_options=convert)
        yield Raw(names, [pa.array([], pa.string()) for _ in names], 0)
        for batch in reader:
            yield Raw(names, batch.columns, batch.num_rows)
