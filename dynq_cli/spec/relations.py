"""The `relations:` of a spec: columns in the order of the file, key, how often they change."""

from __future__ import annotations

from itertools import islice
from typing import cast

from dynq_cli.errors import Place
from dynq_cli.spec.log_source import read_log_source
from dynq_cli.spec.model import Changes, Column, OnDegree, Relation
from dynq_cli.spec.names import Names
from dynq_cli.spec.nodes import ListNode, Node, Scalar
from dynq_cli.spec.report import Field, Report, Shape
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import parse_type

# Larger degrees bound nothing.
MOST_DEGREE = 10**9
_COLUMNS_HINT = "write `columns:` and below it one `name: type` per line, without `-`"
_SHAPE = Shape(
    hint=_COLUMNS_HINT,
    required={"columns": _COLUMNS_HINT},
    optional=("key", "changes", "append_only", "max_degree", "on_degree", "source"),
    synonyms={
        "fields": "columns",
        "schema": "columns",
        "cols": "columns",
        "primary_key": "key",
        "unique_key": "key",
        "keys": "key",
        "pk": "key",
        "degree": "max_degree",
    },
)
_RELATIONS_HINT = "write each relation as `name:` with its `columns:` indented below"
_DEGREE_HINT = "write a whole number above 0, as in `max_degree: 8`"
_KEY_HINT = "list the columns that identify a row, as in `key: [id]`, or leave `key` out"
_TYPE_HINT = "write `name: type`, as in `id: int64` or `note: string?`"


def read_relations(
    report: Report, node: Node, place: Place, names: Names
) -> tuple[tuple[Relation, ...], frozenset[str]]:
    """The relations in the order of the file, and the names of those about which something is wrong."""
    relations = report.map(node, "`relations`", place, _RELATIONS_HINT)
    if relations is None:
        return (), frozenset()
    found = []
    wrong: set[str] = set()
    for key, value in relations.entries:
        before = len(report.problems)
        names.give(key, "relation")
        found.append(_read_relation(report, key, value))
        if len(report.problems) > before:
            wrong.add(key.value)
    return tuple(found), frozenset(wrong)


def _read_relation(report: Report, key: Scalar, node: Node) -> Relation:
    owner = f"relation {shown(key.value)}"
    fields = report.fields(node, owner, key.place, _SHAPE) or {}
    columns: dict[str, Column | None] = {}
    if "columns" in fields:
        columns = _read_columns(report, fields["columns"].value, owner, fields["columns"].place)
    identity: tuple[str, ...] = ()
    if "key" in fields:
        identity = _read_key(report, fields["key"].value, owner, columns)
    changes: str | None = None
    if "changes" in fields:
        changes = report.choice(fields["changes"].value, f"`changes` of {owner}", ("rare", "normal", "often"))
    append_only = None
    if "append_only" in fields:
        owned = f"`append_only` of {owner}"
        append_only = report.choice(fields["append_only"].value, owned, ("true", "false"))
    most = _read_degree(report, fields, owner)
    on_degree: str | None = None
    if "on_degree" in fields:
        on_degree = report.choice(fields["on_degree"].value, f"`on_degree` of {owner}", ("refuse", "warn"))
        if "max_degree" not in fields:
            message = f"`on_degree` of {owner} says what happens past `max_degree`, which it does not have"
            report.add(fields["on_degree"].place, message, "add `max_degree`, as in `max_degree: 8`")
    source = None
    if "source" in fields:
        source = read_log_source(report, fields["source"].value, owner, fields["source"].place, columns)
    known = tuple(column for column in columns.values() if column)
    often = cast(Changes, changes or "normal")
    return Relation(
        key.value,
        known,
        identity,
        often,
        key.place,
        source,
        append_only == "true",
        most,
        cast(OnDegree, on_degree or "refuse"),
    )


def _read_degree(report: Report, fields: dict[str, Field], owner: str) -> int | None:
    if "max_degree" not in fields:
        return None
    text = report.text(fields["max_degree"].value, f"`max_degree` of {owner}", _DEGREE_HINT)
    if text is None:
        return None
    digits = text.value.replace("_", "")
    if not digits.isascii() or not digits.isdecimal() or not 0 < int(digits[:19]) <= MOST_DEGREE:
        report.add(text.place(), f"`max_degree` of {owner} cannot be {shown(text.value)}", _DEGREE_HINT)
        return None
    return int(digits)


def _read_columns(report: Report, node: Node, owner: str, place: Place) -> dict[str, Column | None]:
    """By name, in order; None for a column whose type is wrong."""
    mapping = report.map(node, f"`columns` of {owner}", place, _COLUMNS_HINT)
    if mapping is None:
        return {}
    names = Names(report)
    columns: dict[str, Column | None] = {}
    for key, value in mapping.entries:
        names.give(key, "column")
        columns[key.value] = _read_column(report, key, value)
    return columns


def _read_column(report: Report, key: Scalar, node: Node) -> Column | None:
    if isinstance(node, Scalar) and node.absent:
        report.add(key.place, f"column {shown(key.value)} has no type", _TYPE_HINT)
        return None
    text = report.text(node, f"the type of column {shown(key.value)}", _TYPE_HINT)
    if text is None:
        return None
    try:
        kind, nullable = parse_type(text.value)
    except ValueError as error:
        message, _, advice = str(error).partition(": write ")
        hint = f"write {advice}" if advice else "write decimal(precision,scale), as in decimal(15,2)"
        report.add(text.place(), f"column {shown(key.value)}: {message}", hint)
        return None
    return Column(key.value, kind, nullable, key.place)


def _read_key(report: Report, node: Node, owner: str, columns: dict[str, Column | None]) -> tuple[str, ...]:
    key: dict[str, None] = {}
    for item in report.items(node, f"`key` of {owner}", _KEY_HINT):
        text = report.text(item, f"a key column of {owner}", _KEY_HINT)
        if text is None:
            continue
        name = text.value
        if name in key:
            report.add(text.place(), f"{shown(name)} is twice in the key of {owner}", "name each key column once")
        elif name in columns:
            column = columns[name]
            if column and column.nullable:
                message = f"the key column {shown(name)} of {owner} allows NULL"
                hint = f"write `{name}: {column.type}` without the `?`, or choose another key"
                report.add(text.place(), message, hint)
            key[name] = None
        elif columns:
            hint = _column_hint(report, node, name, columns)
            report.add(text.place(), f"{owner} has no column {shown(name)} for its key", hint)
    return tuple(key)


def _column_hint(report: Report, node: Node, name: str, columns: dict[str, Column | None]) -> str:
    parts = name.replace(",", " ").split()
    if not isinstance(node, ListNode) and len(parts) > 1 and all(part in columns for part in parts):
        return f"write the columns as a list: `key: [{', '.join(parts)}]`"
    meant = report.nearest(name, columns)
    if meant:
        return f"did you mean {shown(meant)}?"
    listed = ", ".join(shown(column) for column in islice(columns, 12))
    return f"its columns are {listed}{', …' if len(columns) > 12 else ''}"
