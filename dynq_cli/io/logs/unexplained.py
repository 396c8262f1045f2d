"""Refuse files with an undeclared column that looks like a mark of changes, such as `op`.

Suspicious names begin with `_`, `__$` or `METADATA$`, or contain a word of change logs: `op` in `cdc_op`, but not in
`shop`. Well-known names without a meaning for changes are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from dynq_cli.errors import RejectedError
from dynq_cli.spec.shown import shown

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORDS = frozenset(
    [
        "op",
        "operation",
        "cdc",
        "delete",
        "deletion",
        "removed",
        "optype",
        "opcode",
        "rowkind",
        "changetype",
        "tombstone",
    ]
)
_HARMLESS = frozenset(
    [
        "_relation",
        "_count",
        "_commit_version",
        "_commit_timestamp",
        "_change_ordinal",
        "_commit_snapshot_id",
        "_metadata",
        "_file",
        "_pos",
        "_partition",
        "_spec_id",
        "_row_id",
        "_rowid",
        "_last_updated_sequence_number",
        "_corrupt_record",
        "_rescued_data",
        "_id",
        "_index",
        "_partitiontime",
        "_partitiondate",
        "_table_suffix",
        "_file_name",
        "_loaded_at",
        "_ingested_at",
        "_inserted_at",
        "_updated_at",
        "_created_at",
        "_synced_at",
        "_extracted_at",
        "_source_file",
        "_input_file_name",
        "_dbt_source_relation",
    ]
)
_HARMLESS_PREFIXES = ("__index_level_", "_dlt_", "_sdc_", "_etl_")


def looks_like_a_mark(name: str) -> bool:
    """Whether a column may be a mark of changes, by its name.

    >>> list(filter(looks_like_a_mark, ("op", "shop", "cdc_op", "options", "isDeleted", "OP_TYPE", "_id", "_gone")))
    ['op', 'cdc_op', 'isDeleted', 'OP_TYPE', '_gone']
    >>> list(filter(looks_like_a_mark, ("del_flag", "isDel", "deletion_date", "is_removed", "delta", "nombre_del_mar")))
    ['del_flag', 'isDel', 'deletion_date', 'is_removed']
    """
    low, words = name.lower(), [word.lower() for word in _WORD.findall(name)]
    if "deleted" in low or not _WORDS.isdisjoint(words):
        return True
    if "del" in (*words[:1], *words[-1:]):  # elsewhere it is a word of Spanish
        return True
    if re.search(r"(^|_)(change_type|row_kind)($|_)", low):
        return True
    if low.startswith("metadata$") or re.fullmatch(".change_type", low, re.DOTALL):  # its first character is damaged
        return True
    is_numbered = re.fullmatch(r"_c?[0-9]+", low) is not None  # Spark's names for columns without one
    return low.startswith("_") and low not in _HARMLESS and not low.startswith(_HARMLESS_PREFIXES) and not is_numbered


def refuse_unexplained(path: str, names: Collection[str], explained: Collection[str], relation: str | None) -> None:
    """RejectedError if a file whose rows would be inserts has a column that looks like a mark of changes."""
    found = sorted(name for name in names if name not in explained and looks_like_a_mark(name))
    if not found:
        return
    column, of = found[0], "the relation" if relation is None else relation
    raise RejectedError(
        f"{path}: column {shown(column)} looks like a mark of what happened to a row, and no known format has it\n"
        f"  hint: say in the spec how logs of {of} mark deletes, as in `source: {{deleted_when: {column}}}`"
        f" or `source: {{op: {{column: {column}, …}}}}`;\n"
        "  if it is data, list it among the columns, or apply the file by `dynq apply --format snapshot`"
    )
