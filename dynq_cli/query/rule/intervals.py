"""`interval '1h 30m'` → microseconds.

Only units of one length are intervals here: a month or a year has none, so `t + 1 month` could
not be compared by adding a constant.
"""

from __future__ import annotations

import re
from fractions import Fraction

MICROSECONDS_PER_DAY = 86_400_000_000
LONGEST = 3_652_500 * MICROSECONDS_PER_DAY  # ten thousand years

_UNITS = {
    1: ("us", "µs", "usec", "usecs", "microsecond", "microseconds"),
    1_000: ("ms", "msec", "msecs", "millisecond", "milliseconds"),
    1_000_000: ("s", "sec", "secs", "second", "seconds"),
    60_000_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000_000: ("h", "hr", "hrs", "hour", "hours"),
    MICROSECONDS_PER_DAY: ("d", "day", "days"),
    7 * MICROSECONDS_PER_DAY: ("w", "week", "weeks"),
}
_LENGTH = {name: length for length, names in _UNITS.items() for name in names}
_NO_LENGTH = re.compile(r"(?:mon|month|months|mo|q|quarter|quarters|y|yr|yrs|year|years|decades?|century|centuries)")
_PART = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([^\W\d_]+)\s*,?")
EXAMPLE = "interval '1h 30m'"


class BadInterval(ValueError):
    """A text that is no interval: `args` are the message and the hint."""


def read_interval(text: str) -> int:
    """The length in microseconds. Raises BadInterval.

    >>> read_interval("1h 30m") == 90 * 60 * 1_000_000
    True
    """
    if not text.strip():
        raise BadInterval("the interval is empty", f"write a number and a unit, as in {EXAMPLE}")
    if text.lstrip()[0] in "-+":
        raise BadInterval("an interval has no sign", f"write the sign before it, as in x - {EXAMPLE}")
    total, at = Fraction(0), 0
    while text[at:].strip():
        found = _PART.match(text, at)
        if found is None:
            raise BadInterval(*_unlike(text))
        total += Fraction(found[1]) * _length_of(found[2])
        at = found.end()
    if total.denominator != 1:
        raise BadInterval(
            "an interval is a whole number of microseconds", f"write it in smaller units, as in {EXAMPLE}"
        )
    if total > LONGEST:
        raise BadInterval("an interval is at most ten thousand years", f"write less, as in {EXAMPLE}")
    return int(total)


def _length_of(unit: str) -> int:
    if unit == "M":
        raise BadInterval("M may mean minutes or months", "write m for minutes; a month has no constant length")
    if _NO_LENGTH.fullmatch(unit.lower()):
        raise BadInterval(f"{unit} is no unit of constant length", "write days or weeks, as in interval '30d'")
    length = _LENGTH.get(unit.lower())
    if length is None:
        raise BadInterval(f"there is no unit {unit}", "the units are us, ms, s, m, h, d, w and their long names")
    return length


def _unlike(text: str) -> tuple[str, str]:
    if re.fullmatch(r"\s*[0-9.]+\s*", text):
        return "the interval has no unit", f"write one after the number, as in interval '{text.strip()}h'"
    if re.fullmatch(r"\s*[0-9]+:[0-9:.]+\s*", text):
        return "an interval is not written as a time of day", f"write numbers with units, as in {EXAMPLE}"
    return "this is not an interval", f"write numbers with units, as in {EXAMPLE}"
