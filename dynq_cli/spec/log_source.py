"""The `source:` of a relation: how its logs mark changes, and their names of its columns.

A row for which `deleted_when` holds is a delete by key, whatever its word under `op` is.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from dynq_cli.errors import Place
from dynq_cli.spec.model import LogSource, Text
from dynq_cli.spec.nodes import Node
from dynq_cli.spec.report import Report, Shape
from dynq_cli.spec.shown import shown

_QUOTED = re.compile(r'"((?:[^"]|"")+)"')
_HINT = "write `deleted_when:` with a column or a condition, or `op: {column: action, insert: [add], delete: [del]}`"
_SHAPE = Shape(
    hint=_HINT,
    required={},
    optional=("deleted_when", "op", "columns"),
    synonyms={"deleted": "deleted_when", "delete_when": "deleted_when", "operation": "op", "rename": "columns"},
)
_OP_HINT = "write `op: {column: action, insert: [add], update: [chg], delete: [del]}`"
_OP_SHAPE = Shape(
    hint=_OP_HINT,
    required={"column": "write `column:` with the column of the log that says what a row is"},
    optional=("insert", "update", "delete"),
    synonyms={"inserts": "insert", "updates": "update", "deletes": "delete", "name": "column"},
)
_COLUMNS_HINT = "write `column_of_the_spec: column_of_the_log`"
_WORDS_HINT = "list the words of the log, as in `insert: [add]`"


def read_log_source(report: Report, node: Node, owner: str, place: Place, columns: Collection[str]) -> LogSource | None:
    """Read `source:`; None after reporting problems. `columns` are those of the relation."""
    fields = report.fields(node, f"`source` of {owner}", place, _SHAPE)
    if not fields:
        return None
    deleted: str | None = None
    condition: Text | None = None
    if "deleted_when" in fields:
        text = report.text(fields["deleted_when"].value, f"`deleted_when` of {owner}", "write a column or a condition")
        if text is not None:
            deleted, condition = _column_or_condition(text)
    renamed: tuple[tuple[str, str], ...] = ()
    if "columns" in fields:
        renamed = _read_columns(report, fields["columns"].value, owner, fields["columns"].place, columns)
    column: str | None = None
    words: dict[str, tuple[str, ...]] = {"insert": (), "update": (), "delete": ()}
    if "op" in fields:
        column, words = _read_op(report, fields["op"].value, owner, fields["op"].place)
    return LogSource(renamed, deleted, column, words["insert"], words["update"], words["delete"], condition)


def _column_or_condition(text: Text) -> tuple[str, Text | None]:
    """Read `deleted_when`: a column, which may be in double quotes, or SQL with its text."""
    value = text.value.strip()
    quoted = _QUOTED.fullmatch(value)
    if quoted is not None:
        return quoted[1].replace('""', '"'), None
    return value, None if value.isidentifier() else text


def _read_columns(
    report: Report, node: Node, owner: str, place: Place, columns: Collection[str]
) -> tuple[tuple[str, str], ...]:
    mapping = report.map(node, f"`columns` of the source of {owner}", place, _COLUMNS_HINT)
    found: dict[str, str] = {}
    for key, value in mapping.entries if mapping else ():
        text = report.text(value, f"the log's column for {shown(key.value)}", _COLUMNS_HINT)
        if key.value not in columns:
            meant = report.nearest(key.value, columns)
            hint = f"did you mean {shown(meant)}?" if meant else _COLUMNS_HINT
            report.add(key.place, f"{owner} has no column {shown(key.value)} to read", hint)
        elif text is not None and text.value in found.values():
            report.add(text.place(), f"{shown(text.value)} is read for two columns of {owner}", "name it once")
        elif text is not None:
            found[key.value] = text.value
    return tuple(found.items())


def _read_op(report: Report, node: Node, owner: str, place: Place) -> tuple[str | None, dict[str, tuple[str, ...]]]:
    words: dict[str, tuple[str, ...]] = {"insert": (), "update": (), "delete": ()}
    fields = report.fields(node, f"`op` of {owner}", place, _OP_SHAPE)
    if fields is None:
        return None, words
    column = None
    if "column" in fields:
        text = report.text(fields["column"].value, f"`column` of `op` of {owner}", _OP_HINT)
        column = None if text is None else text.value
    seen: dict[str, str] = {}
    for name in words:
        if name not in fields:
            continue
        for item in report.items(fields[name].value, f"`{name}` of `op` of {owner}", _WORDS_HINT):
            text = report.text(item, f"a word of `{name}` of {owner}", _WORDS_HINT)
            if text is None:
                continue
            low = text.value.lower()
            if low in seen:
                message = f"the word {shown(text.value)} of {owner} is under `{seen[low]}` already"
                report.add(text.place(), message, "give each word once; upper and lower case are the same")
            else:
                seen[low] = name
                words[name] = (*words[name], low)
    if not seen and len(fields) < 2:
        report.add(place, f"`op` of {owner} has no words", _OP_HINT)
    return column, words
