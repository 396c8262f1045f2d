"""A snapshot: a file without change types. Every row is an insert."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.formats.log_format import NO, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import INSERT
from dynq_cli.spec.model import Relation


def detect(free: Collection[str], names: Collection[str]) -> int:
    return NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    yield ChangeRows(rows, np.full(len(rows), INSERT, np.int8))


FORM = LogFormat(
    "snapshot", detect, translate, order=(), says_deletes=lambda names: False, can_be_whole=lambda free: True
)
