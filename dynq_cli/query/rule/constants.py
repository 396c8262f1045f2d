"""Constants as written → values: `1.5`, `'abc'`, `date '2020-01-31'`, `x'00FF'`, `true`.

Each reader raises QueryProblems with what to write instead.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from math import isinf

from dynq_cli.query.problems import QueryProblems, refuse
from dynq_cli.query.rule.intervals import BadInterval, read_interval
from dynq_cli.query.rule.syntax import Constant
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import MAX_PRECISION

EXAMPLES = {
    "date": "date '2020-01-31'",
    "time": "time '12:30:00'",
    "timestamp": "timestamp '2020-01-31 12:30:00'",
    "interval": "interval '1h 30m'",
    "x": "x'00FF'",
}
_NUMBER = re.compile(r"([0-9]*)(?:\.([0-9]+))?([eE][+-]?[0-9]+)?")
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"


def read_number(text: str, at: int) -> Constant:
    found = _NUMBER.fullmatch(text)
    if found is None:
        plain = text.replace("_", "")
        better = f"write {plain}" if plain.isdigit() else "write digits, with a point for decimals, as in 1.5"
        raise refuse(at, f"{shown(text)} is not a number", better)
    if found[3]:
        value = float(text)
        if isinf(value):
            raise refuse(at, f"{shown(text)} is too large for a float64", "write a number below 1.8e308")
        return Constant("number", Decimal(repr(value)), text, floating=True, at=at)
    if len(found[1]) > MAX_PRECISION or len(found[2] or "") > MAX_PRECISION:
        raise refuse(at, f"{shown(text)} has more than {MAX_PRECISION} digits", "write fewer, or a float as in 1.5e40")
    return Constant("number", Decimal(text), text, at=at)


def read_string(text: str, at: int) -> Constant:
    return Constant("string", _unquoted(text, at), text, at=at)


def read_truth(text: str, at: int) -> Constant:
    return Constant("bool", text.lower() == "true", text.lower(), at=at)


def read_typed(word: str, at: int, quoted: str, quoted_at: int) -> Constant:
    """A word and a string, as in `date '2020-01-31'`."""
    kind = word.lower()
    if kind not in EXAMPLES or (kind == "x" and quoted_at != at + 1):
        known = ", ".join(EXAMPLES.values())
        message = f"{shown(word)} before a string is no kind of constant"
        raise refuse(at, message, f"separate the two by a comma, or write one of {known}")
    inside = _unquoted(quoted, quoted_at)
    text = f"{kind}{'' if kind == 'x' else ' '}{quoted}"
    if kind == "interval":
        try:
            return Constant("interval", read_interval(inside), text, at=at)
        except BadInterval as bad:
            message, hint = bad.args
            raise refuse(quoted_at, message, hint) from None
    try:
        if kind == "x":
            return Constant("binary", _bytes(inside), text, at=at)
        if kind == "date":
            return Constant("date", read_date(inside), text, at=at)
        if kind == "time":
            return Constant("time", read_time(inside), text, at=at)
        return Constant("timestamp", read_timestamp(inside), text, at=at)
    except (ValueError, OverflowError):
        what = "binary constant" if kind == "x" else kind
        raise refuse(quoted_at, f"{shown(quoted)} is not a {what}", f"write it as in {EXAMPLES[kind]}") from None


def read_date(text: str) -> dt.date:
    """An ISO date. Raises ValueError."""
    if not re.fullmatch(_DATE, text):
        raise ValueError(text)
    return dt.date.fromisoformat(text)


def read_time(text: str) -> dt.time:
    """An ISO time of day without a zone. Raises ValueError."""
    if not re.fullmatch(_CLOCK, text):
        raise ValueError(text)
    return dt.time.fromisoformat(text)


def read_timestamp(text: str) -> dt.datetime:
    """An ISO timestamp in UTC; one with a zone is converted. Raises ValueError, OverflowError."""
    if re.fullmatch(_DATE, text):
        return dt.datetime.fromisoformat(text)
    if not re.fullmatch(f"{_DATE}[ T]{_CLOCK}{_ZONE}?", text):
        raise ValueError(text)
    value = dt.datetime.fromisoformat(text)
    return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value


def _bytes(text: str) -> bytes:
    if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", text):
        raise ValueError(text)
    return bytes.fromhex(text)


def _unquoted(text: str, at: int) -> str:
    inside = text[1:-1].replace("''", "'")
    if any("\ud800" <= c <= "\udfff" for c in inside):
        raise _not_unicode(at)
    return inside


def _not_unicode(at: int) -> QueryProblems:
    return refuse(at, "the string holds half of a surrogate pair, which is no character", "write the character itself")
