"""Text from a file, made fit to stand in a message: short, on one line, nothing invisible."""

from __future__ import annotations

LONGEST = 60


def shown(text: str) -> str:
    """In backticks, clipped, with control characters as escapes.

    >>> shown("a\\tb")
    '`a\\\\tb`'
    """
    clipped = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in clipped)
    return f"`{visible}`" if visible else '`""`'
