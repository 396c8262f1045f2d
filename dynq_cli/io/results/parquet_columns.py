"""How the columns of a Parquet file are encoded: through a dictionary, or as they are.

Arrow writes every column through a dictionary, until that is too large. Finding the values in it takes most of the
time, and where a result repeats its values in runs or patterns, LZ4 makes the plain column as small. Which of both
holds is tried on the first rows. Texts always have a dictionary.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TRIED_ROWS = 1 << 14
# So many bytes more a row are worth the time.
_BYTES_A_ROW = 0.25


def options_for(first: pa.Table) -> dict[str, Any]:
    """What `pq.ParquetWriter` is told, for a file that begins with these rows."""
    schema = first.schema
    coded = [field.name for field in schema if not pa.types.is_primitive(field.type)]
    open_ = [name for name in schema.names if name not in coded]
    if open_:
        tried = first.select(open_).slice(0, _TRIED_ROWS)
        limit = _BYTES_A_ROW * tried.num_rows
        sizes = zip(_sizes(tried, True), _sizes(tried, False), strict=True)
        coded += [name for name, (with_, without) in zip(open_, sizes, strict=True) if without > with_ + limit]
    return {"compression": "lz4", "use_dictionary": coded or False}


def _sizes(table: pa.Table, has_dictionary: bool) -> list[int]:
    """Bytes that each column takes."""
    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression="lz4", use_dictionary=has_dictionary, write_statistics=False)
    group = pq.read_metadata(pa.BufferReader(out.getvalue())).row_group(0) if table.num_rows else None
    return [group.column(i).total_compressed_size if group else 0 for i in range(table.num_columns)]
