"""Infer the type of a column of texts from all of its values.

A `Guess` is an element of a small lattice; `join(a, b)` is the least guess that covers both, so
the guess for a column is the join over its values, in whatever order and pieces they are read.
A text with leading zeros is no number: `00123` stays a string.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.spec.types import BOOL, DATE, FLOAT64, INT64, MAX_PRECISION, STRING, TIME, TIMESTAMP, Type, decimal

Kind = Literal["nothing", "bool", "int", "fixed", "float", "date", "time", "timestamp", "text"]

_DAY = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d"
_SECONDS = r":[0-5]\d(\.\d{1,9})?"
_WHOLE = rf"(0|[1-9]\d{{0,{MAX_PRECISION - 1}}})"
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("int", rf"-?{_WHOLE}"),
    ("fixed", rf"-?{_WHOLE}(\.\d+)?"),
    ("float", rf"-?({_WHOLE}(\.\d*)?|\.\d+)([eE][+-]?\d{{1,3}})?|(?i:nan|[+-]?inf(inity)?)"),
    ("date", _DAY),
    ("timestamp", rf"{_DAY}([T ]{_CLOCK}({_SECONDS})?(Z|[+-]\d\d(:?\d\d)?)?)?"),
    ("time", _CLOCK + _SECONDS),
    ("bool", r"(?i:true|false)"),
)
_USUAL_PRECISION = 18  # the widest decimal that is kept as one machine integer


@dataclass(frozen=True)
class Guess:
    """`whole` and `scale` are digits before and after the point, of int and fixed only."""

    kind: Kind
    whole: int = 0
    scale: int = 0

    @property
    def type(self) -> Type:
        """The type to write into a spec; a column without values is a string until someone says better."""
        if self.kind == "fixed":
            precision = max(self.whole + self.scale, _USUAL_PRECISION)
            return decimal(precision, self.scale) if precision <= MAX_PRECISION else FLOAT64
        return _TYPES[self.kind]

    def fits(self, declared: Type) -> bool:
        """Whether the texts can be read as values of a type that another file declares."""
        if self.kind == "nothing" or declared == STRING or declared == self.type:
            return True
        if self.kind in ("int", "fixed"):
            room = self.scale <= declared.scale and self.whole <= declared.precision - declared.scale
            return declared.is_float or (declared.name == "decimal" and room)
        return (self.kind == "date" and declared == TIMESTAMP) or (self.kind == "float" and declared.is_float)


_TYPES: dict[Kind, Type] = {
    "nothing": STRING,
    "bool": BOOL,
    "int": INT64,
    "float": FLOAT64,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMP,
    "text": STRING,
}
NOTHING = Guess("nothing")
TEXT = Guess("text")
FLOAT = Guess("float")


def join(a: Guess, b: Guess) -> Guess:
    """The least guess that covers both.

    >>> join(Guess("int", 3), Guess("fixed", 1, 2))
    Guess(kind='fixed', whole=3, scale=2)
    >>> join(Guess("date"), Guess("int", 3)).kind
    'text'
    """
    if a == b or b == NOTHING:
        return a
    if a == NOTHING:
        return b
    kinds = {a.kind, b.kind}
    if kinds <= {"int", "fixed"}:
        if a.scale and b.scale and a.scale != b.scale:
            return FLOAT
        kind: Kind = "int" if kinds == {"int"} else "fixed"
        return Guess(kind, max(a.whole, b.whole), max(a.scale, b.scale))
    if kinds <= {"int", "fixed", "float"}:
        return FLOAT
    return Guess("timestamp") if kinds == {"date", "timestamp"} else TEXT


def sniff(texts: pa.Array, so_far: Guess = NOTHING) -> Guess:
    """The join of `so_far` and the guesses for each text; NULLs say nothing."""
    if so_far == TEXT:
        return TEXT
    values = texts.drop_null()
    if len(values) == 0:
        return so_far
    # Most pieces look like those before them, so the pattern that held so far is tried first.
    for kind, pattern in sorted(_PATTERNS, key=lambda item: item[0] != so_far.kind):
        if pc.all(pc.match_substring_regex(values, f"^({pattern})$")).as_py():
            return join(so_far, _refine(kind, values))
    return TEXT


def _refine(kind: Kind, values: pa.Array) -> Guess:
    if kind in ("int", "fixed"):
        return _number(values)
    if kind in ("date", "timestamp"):
        return Guess(kind) if _are_days(pc.utf8_slice_codeunits(values, 0, 10)) else TEXT
    return Guess(kind)


def _number(values: pa.Array) -> Guess:
    digits = pc.utf8_ltrim(values, "-")
    point = pc.find_substring(digits, ".")
    length = pc.utf8_length(digits)
    pointed = pc.greater_equal(point, 0)
    whole = pc.max(pc.if_else(pointed, point, length)).as_py()
    scales = pc.unique(pc.filter(pc.subtract(pc.subtract(length, point), 1), pointed)).to_pylist()
    if len(scales) > 1:
        return FLOAT
    if scales:
        return Guess("fixed", whole, scales[0])
    return Guess("int" if _are_int64(values) else "fixed", whole)


def _are_int64(values: pa.Array) -> bool:
    try:
        pc.cast(values, pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _are_days(values: pa.Array) -> bool:
    try:
        pc.cast(values, pa.date32())
    except pa.ArrowInvalid:
        return False
    return True
