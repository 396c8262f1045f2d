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
    raise ValueError(_advice(body, nullable))


def _advice(body: str, nullable: bool) -> str:
    """The sentence for a text that is no type; it names the type of dynq that other systems call so.

    >>> _advice("VARCHAR(10)", True)
    "'VARCHAR(10)' is not a type: write string?"
    >>> _advice("numeric(10,2)", False)
    "'numeric(10,2)' is not a type: write decimal(10,2)"
    """
    found = _FOREIGN.fullmatch(body)
    name = " ".join(found["name"].lower().split()) if found else ""
    mark = "?" if nullable or (found is not None and (found["null"] or "").lower() == "null") else ""
    if name in _EXACT and found is not None:
        precision, scale = int(found["first"] or 0), int(found["second"] or 0)
        if 1 <= precision <= MAX_PRECISION and scale <= precision:
            return f"'{body}' is not a type: write {decimal(precision, scale)}{mark}"
        return f"'{body}' is not a type: write decimal(precision,scale), as in decimal(15,2)"
    near = name if name in _SQL else _ALIASES.get(name)
    if near:
        return f"'{body}' is not a type: write {near}{mark}"
    if _NESTED.match(body):
        return f"'{body}' is not a type: write a column for each part of it, since nested values are not kept"
    return f"'{body}' is not a type: write one of {', '.join(SIMPLE_NAMES)}, decimal(p,s)"


_FOREIGN = re.compile(
    r"(?P<name>[a-z_]\w*(?:\s+(?!not\b|null\b|with)[a-z_]\w*)*)"
    r"\s*(?:\(\s*(?P<first>\d{1,9}|max|us|ns|ms|s)\s*(?:,\s*(?P<second>\d{1,9}))?\s*\)|\[(?:day|us|ns|ms|s)[^\]]*\])?"
    r"(?:\s+with(?:out)?\s+time\s+zone)?(?:\s+(?P<null>not\s+null|null))?",
    re.IGNORECASE,
)
_NESTED = re.compile(
    r"(?:array|list|struct|map|row|record|union|variant|object)\b|.*\[\d*\]$", re.IGNORECASE | re.DOTALL
)
_EXACT = ("decimal", "numeric", "number", "dec", "decimal128", "bignumeric")
_ALIASES = {
    alias: name
    for name, aliases in {
        "bool": "boolean, bit",
        "int8": "tinyint, byte",
        "int16": "smallint, short, int2, uint8, utinyint",
        "int32": "mediumint, int4, uint16, usmallint",
        "int64": "int, integer, bigint, long, uint32, uinteger",
        "float32": "real, float4, single",
        "float64": "float, double, double precision, float8",
        "decimal(20,0)": "uint64, ubigint",
        "decimal(38,0)": "hugeint, int128",
        "decimal(19,4)": "money",
        "string": "text, str, varchar, varchar2, nvarchar, nvarchar2, char, nchar, bpchar, character,"
        " character varying, utf8, large_string, large_utf8, string_view, clob, nclob, longtext, mediumtext, tinytext,"
        " ntext, enum, categorical, uuid, json, jsonb, xml, citext",
        "binary": "bytes, blob, bytea, varbinary, longblob, large_binary, binary varying",
        "date": "date32, date64",
        "time": "time32, time64, timetz",
        "timestamp": "datetime, datetime2, smalldatetime, datetime64, datetimeoffset, timestamptz,"
        " timestamp_ntz, timestamp_ltz, timestamp_tz, timestamp_s, timestamp_ms, timestamp_us, timestamp_ns, instant",
    }.items()
    for alias in aliases.split(", ")
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


def common_type(a: Type, b: Type) -> Type | None:
    """The one type in which values of two types are compared, or None: `widen`, or a decimal of all digits.

    Where digits before and behind the point are more than 38 together, those behind it stay, as in DuckDB. A commit
    with a value that then has no place is refused.

    >>> str(common_type(decimal(38, 2), decimal(38, 4)))
    'decimal(38,4)'
    """
    exact_a, exact_b = _as_decimal(a), _as_decimal(b)
    if exact_a is None or exact_b is None:
        return widen(a, b)
    return widen(a, b) or decimal(MAX_PRECISION, max(exact_a.scale, exact_b.scale))


def _as_decimal(t: Type) -> Type | None:
    if t.name == "decimal":
        return t
    return decimal(_INT_DIGITS[t.name], 0) if t.is_integer else None
