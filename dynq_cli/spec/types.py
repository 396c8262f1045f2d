"""The types of the language, and which pairs of them may meet in a comparison.

`widen(a, b)` is the smallest type that holds every value of both without loss, or None:
two sides of a join or comparison must have one, so that `=` and `<` mean on int64 codes
what they mean on values.
"""

from __future__ import annotations

import re

from dynq_cli.records import record

MAX_PRECISION = 38
_INT_DIGITS = {"int8": 3, "int16": 5, "int32": 10, "int64": 19}
_SQL = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
}
SIMPLE_NAMES = tuple(_SQL)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)")


@record(frozen=True)
class Type:
    """A column type without its NULL mark; `precision` and `scale` are of decimals only."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def is_integer(self) -> bool:
        return self.name in _INT_DIGITS

    @property
    def is_float(self) -> bool:
        return self.name in ("float32", "float64")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_float or self.name == "decimal"

    @property
    def is_temporal(self) -> bool:
        return self.name in ("date", "time", "timestamp")

    @property
    def sql(self) -> str:
        """The type's name in DuckDB's dialect."""
        if self.name == "decimal":
            return f"DECIMAL({self.precision},{self.scale})"
        return _SQL[self.name]


BOOL = Type("bool")
INT64 = Type("int64")
FLOAT64 = Type("float64")
STRING = Type("string")
DATE = Type("date")
TIME = Type("time")
TIMESTAMP = Type("timestamp")


def decimal(precision: int, scale: int) -> Type:
    return Type("decimal", precision, scale)


def parse_type(text: str) -> tuple[Type, bool]:
    """Read `int64`, `decimal(15,2)`, `string?`; the flag says whether NULL is allowed.

    Raises ValueError with a sentence that says what to write instead.
    """
    body = text.strip()
    nullable = body.endswith("?")
    body = body.removesuffix("?").rstrip()
    if body in _SQL:
        return Type(body), nullable
    found = _DECIMAL.fullmatch(body)
    if found:
        precision, scale = int(found[1]), int(found[2])
        if not 1 <= precision <= MAX_PRECISION:
            raise ValueError(f"the precision of a decimal is 1 to {MAX_PRECISION}, not {precision}")
        if scale > precision:
            raise ValueError(f"the scale of a decimal is at most its precision: {scale} > {precision}")
        return decimal(precision, scale), nullable
    if body.startswith("decimal"):
        raise ValueError(f"'{body}' is not a type: write decimal(precision,scale), as in decimal(15,2)")
    if body.lower() in _SQL:
        raise ValueError(f"'{body}' is not a type: write {body.lower()}")
    near = _ALIASES.get(body.lower())
    if near:
        raise ValueError(f"'{body}' is not a type: write {near}")
    raise ValueError(f"'{body}' is not a type: write one of {', '.join(SIMPLE_NAMES)}, decimal(p,s)")


_ALIASES = {
    "int": "int64",
    "integer": "int64",
    "bigint": "int64",
    "long": "int64",
    "smallint": "int16",
    "tinyint": "int8",
    "boolean": "bool",
    "float": "float64",
    "double": "float64",
    "real": "float32",
    "text": "string",
    "str": "string",
    "varchar": "string",
    "char": "string",
    "bytes": "binary",
    "blob": "binary",
    "datetime": "timestamp",
    "numeric": "decimal(p,s), as in decimal(15,2)",
}


def widen(a: Type, b: Type) -> Type | None:
    """The one type both sides have after lossless widening, or None.

    >>> str(widen(Type("int32"), decimal(15, 2)))
    'decimal(15,2)'
    >>> widen(INT64, FLOAT64) is None
    True
    """
    if a == b:
        return a
    if a.is_integer and b.is_integer:
        return max(a, b, key=lambda t: _INT_DIGITS[t.name])
    if a.is_float and b.is_float:
        return FLOAT64
    exact_a, exact_b = _as_decimal(a), _as_decimal(b)
    if exact_a is None or exact_b is None:
        return None
    scale = max(exact_a.scale, exact_b.scale)
    whole = max(exact_a.precision - exact_a.scale, exact_b.precision - exact_b.scale)
    return decimal(whole + scale, scale) if whole + scale <= MAX_PRECISION else None


def _as_decimal(t: Type) -> Type | None:
    if t.name == "decimal":
        return t
    return decimal(_INT_DIGITS[t.name], 0) if t.is_integer else None
