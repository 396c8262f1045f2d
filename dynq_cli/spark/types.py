"""Map types of the spec to Spark's types and back, and decide which Spark types can be converted.

The rules are those of change logs (`values.convert`): the value decides, so 7 in a bigint is an int8; but a text is
never a number, nor a date a timestamp.
"""

from __future__ import annotations

from pyspark.sql import types as t

from dynq_cli.spec.types import DATE, FLOAT64, STRING, TIME, TIMESTAMP, Type, decimal

_SPARK: dict[str, t.DataType] = {
    "bool": t.BooleanType(),
    "int8": t.ByteType(),
    "int16": t.ShortType(),
    "int32": t.IntegerType(),
    "int64": t.LongType(),
    "float32": t.FloatType(),
    "float64": t.DoubleType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "time": t.TimeType(6),
    "timestamp": t.TimestampType(),
}
_SPEC: tuple[tuple[type[t.DataType], Type], ...] = (
    (t.BooleanType, Type("bool")),
    (t.ByteType, Type("int8")),
    (t.ShortType, Type("int16")),
    (t.IntegerType, Type("int32")),
    (t.LongType, Type("int64")),
    (t.FloatType, Type("float32")),
    (t.DoubleType, FLOAT64),
    (t.StringType, STRING),
    (t.CharType, STRING),
    (t.VarcharType, STRING),
    (t.BinaryType, Type("binary")),
    (t.DateType, DATE),
    (t.TimeType, TIME),
    (t.TimestampType, TIMESTAMP),
    (t.TimestampNTZType, TIMESTAMP),
)


def to_spark(kind: Type) -> t.DataType:
    """Return the Spark type in which values of a type of the spec are extracted."""
    return t.DecimalType(kind.precision, kind.scale) if kind.name == "decimal" else _SPARK[kind.name]


def from_spark(kind: t.DataType) -> Type | None:
    """Return the type of the spec that holds every value of a Spark type; None for nested types and the like.

    >>> str(from_spark(t.DecimalType(15, 2))), from_spark(t.ArrayType(t.LongType()))
    ('decimal(15,2)', None)
    """
    if isinstance(kind, t.DecimalType):
        return decimal(kind.precision, kind.scale)
    return next((mine for theirs, mine in _SPEC if isinstance(kind, theirs)), None)


def holds(found: t.DataType, kind: Type) -> bool:
    """Whether values of a Spark type can be values of a type of the spec; a column of Spark's void type can."""
    if isinstance(found, t.NullType):
        return True
    source = from_spark(found)
    if source is None:
        return False
    if source.is_integer:
        return kind.is_numeric
    if source.name == "decimal":
        return kind.is_integer or kind.name == "decimal"
    if source.is_float:
        return kind.is_float
    return source == kind
