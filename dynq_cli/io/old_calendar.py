"""Parquet files in which old days are counted by the Julian calendar, as Spark did before version 3.

Spark 3 and 4 still do under `datetimeRebaseModeInWrite=LEGACY`, and say so in the file. Read as what they are
everywhere else, such days would be wrong by up to ten days, and moments before 1900 by minutes, without a word; so
they are refused. Later days are the same in both calendars.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dynq_cli.errors import RejectedError

_FIRST_DAY = pa.scalar(date(1582, 10, 15), pa.date32())
_FIRST_MOMENT = datetime(1900, 1, 1)
_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER = b"org.apache.spark.version"
_FIRST_RIGHT = (3, 1)


def counts_by_it(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Whether a file says, in its own metadata, that Spark wrote it by the old calendar.

    >>> counts_by_it({b"org.apache.spark.version": b"2.4.8"}), counts_by_it({b"org.apache.spark.version": b"4.0.1"})
    (True, False)
    """
    said = metadata or {}
    if any(mark in said for mark in _MARKS):
        return True
    version = re.match(rb"(\d+)\.(\d+)", said.get(_WRITER, b""))
    return version is not None and (int(version[1]), int(version[2])) < _FIRST_RIGHT


def refuse_old_days(path: str, batch: pa.RecordBatch, first: int) -> None:
    """RejectedError at a day or moment that the two calendars count differently; rows are numbered from `first`."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pt.is_date32(column.type):
            early = pc.less(column, _FIRST_DAY)
        elif pt.is_timestamp(column.type):
            early = pc.less(column.cast(pa.timestamp(column.type.unit)), pa.scalar(_FIRST_MOMENT, pa.timestamp("us")))
        else:
            continue
        row = pc.index(early, True).as_py()
        if row >= 0:
            reason = "Spark counted this day by the Julian calendar"
            hint = (
                "write the file with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED"
                " and int96RebaseModeInWrite=CORRECTED"
            )
            raise RejectedError.in_row(path, first + row, name, reason, hint)
