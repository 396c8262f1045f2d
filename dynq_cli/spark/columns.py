"""Convert the rows of a table to the types of the spec; mark bad rows with the reason.

    typed(frame, columns) has v0, v1, … = the values of the columns, and `bad` = NULL for a good row

A value is good if the conversion is exact, as in change logs: 300 is no int8, 1.5 no int64, 0.1 no float32. A bad row
has no values; `bad.reason` names the column, and `bad.row` is the row as JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from dynq_cli.errors import RejectedError
from dynq_cli.spark.texts import parse
from dynq_cli.spark.types import from_spark, holds, to_spark
from dynq_cli.spec import model
from dynq_cli.spec.types import Type

BAD = "bad"
CORRUPT = "_corrupt_record"
_SMALLEST = -(1 << 63)  # the code of NULL
_SMALLEST_SQL = f"{_SMALLEST}L"
_WHOLE = {"float32": 1 << 24, "float64": 1 << 53}  # integers up to here have a float of their own
_PLAIN = "string collate UTF8_BINARY"  # texts are compared byte by byte, whatever collation their table has
_BAD_TYPE = "struct<reason string, row string>"


def value(position: int) -> str:
    """Return the name of a column in typed rows, by position, so that users' names cannot clash."""
    return f"v{position}"


def all_columns(place: str, frame: DataFrame, ignored: Collection[str]) -> tuple[model.Column, ...]:
    """Return the columns of a table without a spec."""
    found = []
    for column in frame.schema.fields:
        kind, theirs = from_spark(column.dataType), column.dataType.simpleString()
        if column.name in ignored or column.name == CORRUPT:
            continue
        if kind is None:
            raise RejectedError(
                f"{place}: column {column.name} is {theirs}, and dynq has no such type"
                f"\n  hint: leave it out with --ignore {column.name}, or name the columns in a spec"
            )
        found.append(model.Column(column.name, kind, nullable=True))
    return tuple(found)


def misfits(frame: DataFrame, columns: Sequence[model.Column], texts: Collection[str]) -> list[str]:
    """Return the problems that are visible before any row is read: missing columns, and types of other families."""
    found = {field.name: field.dataType for field in frame.schema.fields}
    said = []
    for column in columns:
        if column.name not in found:
            alike = [name for name in found if name.casefold() == column.name.casefold()]
            there = f"; there is {alike[0]}, and names have to agree in upper and lower case" if alike else ""
            said.append(f"column {column.name} is missing{there}")
        elif column.name not in texts and not holds(found[column.name], column.type):
            kind = found[column.name].simpleString()
            said.append(f"column {column.name} is {kind}, which cannot be {column.type}")
    return said


def typed(frame: DataFrame, columns: Sequence[model.Column], key: Collection[str], texts: Collection[str]) -> DataFrame:
    """Convert rows; see the module. `texts` are the columns with texts to parse; NULL in the `key` is bad. O(rows)."""
    fields = {field.name: field.dataType for field in frame.schema.fields}
    values: list[Column] = []
    reasons: list[Column] = []
    if CORRUPT in fields:
        reasons.append(f.when(raw(CORRUPT).isNotNull(), f.lit("the row cannot be read")))
    sources = {column.name: raw(column.name) for column in columns}
    for column in columns:
        made, wrong = typed_value(column.name, fields[column.name], column.type, is_text=column.name in texts)
        values.append(made)
        reasons += reasons_against(column, made, wrong, in_key=column.name in key)
    reason = f.coalesce(*reasons) if reasons else f.lit(None).cast("string")
    shown = raw(CORRUPT) if CORRUPT in fields else f.lit(None).cast("string")
    as_json = f.coalesce(shown, row_as_json(sources))
    bad = f.when(reason.isNotNull(), f.struct(reason.alias("reason"), as_json.alias("row")))
    # Two selects, so that the condition is computed once and used for every column.
    marked = frame.select(*(made.alias(value(i)) for i, made in enumerate(values)), bad.cast(_BAD_TYPE).alias(BAD))
    return only_if_good(marked, len(columns))


def as_they_are(
    frame: DataFrame, columns: Sequence[model.Column], key: Sequence[str], texts: Collection[str]
) -> tuple[str, list[str]] | None:
    """Return SQL for the values of a table that already has the types of the spec, and for the condition of good rows.

    None if a value must be parsed or converted: then use `typed`.
    """
    fields = {field.name: field.dataType for field in frame.schema.fields}
    if any(column.name in texts or from_spark(fields[column.name]) != column.type for column in columns):
        return None
    values, bad = [], []
    for column in columns:
        made, wrong = _as_it_is(column.name, fields[column.name], column.type)
        values.append(made)
        bad += [f"coalesce({wrong}, false)"] if wrong else []
        bad += [f"{made} IS NULL"] if column.name in key or not column.nullable else []
    return f"NOT ({' OR '.join(bad)})" if bad else "true", values


def only_if_good(frame: DataFrame, width: int) -> DataFrame:
    """Set the values of bad rows to NULL, so that they never join or group with other rows."""
    return frame.selectExpr(*(f"if({BAD} IS NULL, {value(i)}, NULL) AS {value(i)}" for i in range(width)), BAD)


def row_as_json(values: dict[str, Column]) -> Column:
    """Return a row as JSON, for people to read."""
    return f.to_json(f.struct(*(made.alias(name) for name, made in values.items())), {"ignoreNullFields": "false"})


def bad_because(reason: Column, row: Column) -> Column:
    return f.struct(reason.alias("reason"), row.alias("row")).cast(_BAD_TYPE)


def raw(name: str) -> Column:
    """Return a column of the table by name, with any characters."""
    return f.col(_quoted(name))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def reasons_against(column: model.Column, made: Column, wrong: Column | None, *, in_key: bool) -> list[Column]:
    """Return the possible reasons against a row because of one column; each is NULL for good rows."""
    found = []
    if wrong is not None:
        found.append(f.when(wrong, f.lit(f"column {column.name}: the value does not fit {column.type}")))
    if in_key:
        found.append(f.when(made.isNull(), f.lit(f"column {column.name}: NULL in the key")))
    elif not column.nullable:
        said = f"column {column.name}: NULL, but the column is not declared {column.type}?"
        found.append(f.when(made.isNull(), f.lit(said)))
    return found


def typed_value(name: str, found: t.DataType, kind: Type, *, is_text: bool) -> tuple[Column, Column | None]:
    """Return the converted value of a column, and the condition that it is inexact; None if it is always exact."""
    source = raw(name)
    if is_text:
        value = parse(source, kind)
        wrong = None if kind.name == "string" else source.isNotNull() & value.isNull()
        return value, _or_smallest(value, wrong, kind)
    if isinstance(found, t.NullType):
        return f.lit(None).cast(to_spark(kind)), None
    theirs = from_spark(found)
    assert theirs is not None
    if theirs == kind:
        made, no_value = _as_it_is(name, found, kind)
        return f.expr(made), f.expr(no_value) if no_value else None
    value = source.try_cast(to_spark(kind))
    if theirs.is_integer and kind.is_float:
        return value, f.abs(source.cast("decimal(20,0)")) > _WHOLE[kind.name]
    # Convert back: a rounded or truncated value differs.
    wrong = source.isNotNull() & ~value.try_cast(found).eqNullSafe(source)
    return value, _or_smallest(value, wrong, kind)


def _as_it_is(name: str, found: t.DataType, kind: Type) -> tuple[str, str | None]:
    """Like `typed_value`, in SQL, for a column that already has the type."""
    type_name = _PLAIN if kind.name == "string" else to_spark(kind).simpleString()
    made = _quoted(name) if found == to_spark(kind) else f"CAST({_quoted(name)} AS {type_name})"
    if kind.name == "string":
        return made, f"NOT is_valid_utf8({made})"
    return made, f"{made} = {_SMALLEST_SQL}" if kind.name == "int64" else None


def _or_smallest(value: Column, wrong: Column | None, kind: Type) -> Column | None:
    if kind.name != "int64":
        return wrong
    smallest = value == f.lit(_SMALLEST)
    return smallest if wrong is None else wrong | smallest
