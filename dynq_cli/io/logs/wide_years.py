"""Parse dates and timestamps of any year, one at a time: Arrow and Python support only years of four digits.

The calendar is the proleptic Gregorian one, with a year 0.
"""

from __future__ import annotations

import re

_DAY_OF_EPOCH = 719_468  # days from 0000-03-01 to 1970-01-01
_MOMENT = re.compile(
    r"(?P<year>-?\d+)-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?"
    r"(?:Z|(?P<sign>[-+])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)?)?)?"
)
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECONDS = 86_400


def days(text: str) -> int:
    """Return the days since 1970-01-01; ValueError if there is no such day.

    >>> days("10000-01-01") - days("9999-12-31"), days("-0001-12-31") - days("0000-01-01")
    (1, -1)
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTHS[month - 1] + leap:
        raise ValueError(text)
    # Let years begin in March: then the leap day comes last, and five months have 153 days.
    year -= month <= 2
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - _DAY_OF_EPOCH


def microseconds(text: str) -> int:
    """Return the microseconds since 1970-01-01 UTC; ValueError if there is no such moment, or it is not exact.

    >>> microseconds("1970-01-02T00:00:00.5+01:00") == 23 * 3_600_000_000 + 500_000
    True
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hours, minutes, seconds = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    east = (int(found["zone_hour"] or 0) * 60 + int(found["zone_minute"] or 0)) * (-1 if found["sign"] == "-" else 1)
    whole = days(text) * _SECONDS + hours * 3_600 + (minutes - east) * 60 + seconds
    fraction = (found["fraction"] or "").rstrip("0")
    if len(fraction) > 6:
        raise ValueError(text)
    return whole * 1_000_000 + int(fraction.ljust(6, "0"))
