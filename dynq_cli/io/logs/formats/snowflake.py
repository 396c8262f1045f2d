"""Snowflake's streams: `METADATA$ACTION` with INSERT or DELETE, `METADATA$ISUPDATE` for the two halves of an update.

A stream is a set of net changes without an order: deletes are applied first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.formats.change_type_columns import flags, words
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE
from dynq_cli.spec.model import Relation

_ACTIONS = ("METADATA$ACTION", "metadata$action")
_UPDATES = ("METADATA$ISUPDATE", "metadata$isupdate")


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if any(name in free for name in _ACTIONS) else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    action = next((name for name in _ACTIONS if name in rows.columns), None)
    if action is None:
        raise rows.lacks(_ACTIONS[0], "SELECT * of a stream has it")
    kinds = words(rows, action, {"INSERT": INSERT, "DELETE": DELETE})
    order = (kinds == INSERT).astype(np.int64)[:, None]
    for name in _UPDATES:
        if name in rows.columns:
            image = np.where(kinds == INSERT, POSTIMAGE, PREIMAGE)
            kinds = np.where(flags(rows, name), image, kinds).astype(np.int8)
    yield ChangeRows(rows, kinds, order=order)


FORM = LogFormat("snowflake", detect, translate, meta=(*_ACTIONS, *_UPDATES), order=())
