"""`Raw`, which the readers of all formats return: rows as columns by position."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

META_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp", "_count", "_relation"})


@dataclass(frozen=True)
class Raw:
    """Rows as a format's reader gives them.

    Columns are by position, since names may repeat. `nulls` stands for values that were not
    read because the file's statistics say how many NULLs there are; `unusable` has the
    reasons why columns were left unread.
    """

    names: list[str]
    columns: list[pa.Array]
    rows: int
    unusable: dict[str, str] = field(default_factory=dict)
    nulls: dict[str, int] | None = None
