"""Format text from a file for messages: short, on one line, without invisible characters."""

from __future__ import annotations

LONGEST = 60


def visible(text: str, keep: str = "") -> str:
    """With control characters as escapes, so that no text can steer a terminal; those in `keep` stay.

    >>> visible("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(text: str) -> str:
    """In backticks, clipped, with control characters as escapes.

    >>> shown("a\\tb")
    '`a\\\\tb`'
    """
    clipped = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return f"`{visible(clipped)}`" if clipped else '`""`'
