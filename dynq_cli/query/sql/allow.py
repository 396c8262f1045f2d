"""The allow-list: which sqlglot nodes are immutable scalar SQL.

Everything here gives the same value for the same row for ever, in every session: no clock, no
random numbers, no time zones, no settings, no files. What is not listed is refused by name.
The second list says which of them are NULL only if an argument is.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

_OPERATORS: tuple[type[exp.Expr], ...] = (
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.And, exp.Or, exp.Not, exp.Between, exp.In,
    exp.Like, exp.ILike, exp.SimilarTo, exp.Glob, exp.Escape, exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr,
    exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift, *COMPARISONS,
)  # fmt: skip

_TOTAL_FUNCTIONS: tuple[type[exp.Expr], ...] = (
    exp.Abs, exp.Ceil, exp.Floor, exp.Round, exp.Sign, exp.Trunc, exp.Cast, exp.Lower, exp.Upper, exp.Length,
    exp.Trim, exp.Replace, exp.Substring, exp.Left, exp.Right, exp.Reverse, exp.StartsWith, exp.EndsWith,
    exp.Contains, exp.StrPosition, exp.RegexpLike, exp.RegexpFullMatch, exp.MD5, exp.SHA2,
    exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Week, exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear,
    exp.WeekOfYear, exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.TimestampTrunc, exp.LastDay, exp.Date,
)  # fmt: skip

_PARTIAL_FUNCTIONS: tuple[type[exp.Expr], ...] = (
    exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Sqrt, exp.Cbrt, exp.Exp, exp.Ln, exp.Log, exp.Greatest, exp.Least,
    exp.Sin, exp.Cos, exp.Tan, exp.Atan, exp.Atan2, exp.Degrees, exp.Radians, exp.Pi, exp.IsNan, exp.IsInf,
    exp.Repeat, exp.Pad, exp.Concat, exp.ConcatWs, exp.SplitPart, exp.RegexpReplace, exp.RegexpExtract,
    exp.Ascii, exp.Unicode, exp.Chr, exp.SHA, exp.Levenshtein, exp.Translate, exp.Hex, exp.ToBase64, exp.Encode,
    exp.Decode, exp.TimeToUnix, exp.DateDiff, exp.DateAdd, exp.Dayname, exp.Monthname, exp.DateFromParts,
    exp.TimestampFromParts, exp.TimeFromParts, exp.TimeToStr, exp.StrToTime, exp.DateBin, exp.ToDays,
    exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.TryCast, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip

_LEAVES: tuple[type[exp.Expr], ...] = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Var, exp.Interval, exp.DataType,
    exp.DataTypeParam, exp.Tuple, exp.RawString,
)  # fmt: skip

SCALAR_CLASSES: frozenset[type[exp.Expr]] = frozenset((*_OPERATORS, *_TOTAL_FUNCTIONS, *_PARTIAL_FUNCTIONS, *_LEAVES))

# Functions sqlglot has no class for, by name.
_NAMES = """
    even gcd lcm bit_count isfinite strlen suffix prefix hamming jaccard damerau_levenshtein jaro_similarity
    jaro_winkler_similarity printf octet_length strip_accents nfc_normalize ord like_escape not_like_escape
    ilike_escape not_ilike_escape weekday yearweek isoyear decade century millennium millisecond microsecond
    epoch_us epoch_ns date_part datepart date_sub datesub try_strptime to_hours to_minutes to_seconds
    to_milliseconds to_microseconds to_months to_years to_weeks era julian add subtract multiply divide fdiv
    fmod nextafter
"""
SCALAR_NAMES = frozenset(_NAMES.split())

# Never immutable: the clock, random numbers, the session.
_VOLATILE = """
    now today current_date current_time current_timestamp currentdate currenttime currenttimestamp localtime
    localtimestamp get_current_time get_current_timestamp transaction_timestamp random rand uuid gen_random_uuid
    uuidv4 uuidv7 setseed nextval currval current_user current_schema current_schemas current_database
    current_catalog current_setting current_query getvariable getenv version txid_current connection_id
    session_user user currentuser currentschema currentdatabase currentcatalog currentversion
"""
VOLATILE_NAMES = frozenset(_VOLATILE.split())

_TYPES = """
    BOOLEAN TINYINT SMALLINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT FLOAT DOUBLE DECIMAL VARCHAR TEXT
    CHAR NVARCHAR VARBINARY BLOB BINARY DATE TIME TIMESTAMP TIMESTAMPNTZ DATETIME HUGEINT
"""
SCALAR_TYPES = frozenset(_TYPES.split())

_STRICT = frozenset((*_OPERATORS, *_TOTAL_FUNCTIONS, exp.Tuple, exp.Interval))
_NEVER_NULL = (
    exp.Literal, exp.Boolean, exp.RawString, exp.Var, exp.DataType, exp.DataTypeParam, exp.Identifier,
    exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip


# NULL if an argument is, whatever the others are.
_NULL_IF_ANY = frozenset((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren, exp.Cast, exp.DPipe, *COMPARISONS))


def is_strict(node: exp.Expr) -> bool:
    """Whether a node is NULL where one of its parts is, erring on the side of no."""
    return type(node) in _NULL_IF_ANY


def may_be_null(node: exp.Expr, column_may: Callable[[exp.Column], bool]) -> bool:
    """Whether a scalar can be NULL, erring on the side of yes."""
    if isinstance(node, exp.Column):
        return column_may(node)
    if isinstance(node, _NEVER_NULL):
        return False
    if isinstance(node, exp.Coalesce):
        return all(may_be_null(part, column_may) for part in (node.this, *node.expressions))
    if isinstance(node, exp.Case):
        results = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        return default is None or any(may_be_null(part, column_may) for part in (*results, default))
    if type(node) in _STRICT:
        return any(may_be_null(part, column_may) for part in node.iter_expressions())
    return True
