"""Parse the condition of `enum --where`: columns of the result that equal constants, joined by AND.

    equalities("x = 5 AND city = 'Lyon' AND note IS NULL")    {"x": 5, "city": "Lyon", "note": None}

Constants are those of SQL: numbers, texts in single quotes, TRUE and FALSE; dates and the like are texts.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

from dynq_cli.errors import UsageError
from dynq_cli.spec.shown import shown

_HINT = "write columns and constants, as in \"x = 5 AND city = 'Lyon' AND note IS NULL\""
_EQUALITY = re.compile(
    r"""\s*(?:"((?:[^"]|"")+)"|([A-Za-z_]\w*))\s*
    (?:(?:=|==)\s*(?:(?:DATE|TIME|TIMESTAMP)\s+)?('(?:[^']|'')*'|[-+]?[0-9][\w.+-]*|[-+]?\.[0-9]+|TRUE|FALSE)
    |IS\s+(NULL))\s*(?=\bAND\b|$)""",
    re.IGNORECASE | re.VERBOSE,
)
_AND = re.compile(r"AND\b", re.IGNORECASE)


def equalities(text: str) -> str:
    """Return the columns and constants as a JSON object, which `row_of` reads. UsageError for any other condition.

    >>> equalities("x = 5 AND \\"my city\\" = 'L''Aquila' AND y = 2.50 and z is null")
    '{"x": 5, "my city": "L\\'Aquila", "y": "2.50", "z": null}'
    """
    found: dict[str, object] = {}
    at = 0
    while True:
        match = _EQUALITY.match(text, at)
        if match is None:
            raise UsageError(f"--where cannot read {shown(text[at:].strip() or text)}\n  hint: {_HINT}")
        quoted, plain, constant, is_null = match.groups()
        name = quoted.replace('""', '"') if quoted is not None else plain
        if name in found:
            raise UsageError(f"--where has the column {shown(name)} twice\n  hint: name each column once")
        found[name] = None if is_null else _value(constant)
        at = match.end()
        if at == len(text):
            return json.dumps(found, ensure_ascii=False)
        joined = _AND.match(text, at)
        assert joined is not None
        at = joined.end()


def _value(constant: str) -> object:
    if constant.startswith("'"):
        return constant[1:-1].replace("''", "'")
    if constant.lower() in ("true", "false"):
        return constant.lower() == "true"
    try:
        number = Decimal(constant)
    except ArithmeticError:
        raise UsageError(f"--where: {shown(constant)} is no constant\n  hint: {_HINT}") from None
    return int(number) if number == number.to_integral_value() and "." not in constant else constant
