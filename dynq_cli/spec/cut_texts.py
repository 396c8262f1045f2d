"""Unquoted texts between braces that YAML cuts at their commas.

`{price: decimal(15,2)}` is a YAML map of two entries, `price: decimal(15` and `2)`. Such a pair is detected by an entry
without a colon that is no name, or by an open bracket. It is reported as one problem with the intended text, not as
several about its pieces.
"""

from __future__ import annotations

import re

from dynq_cli.errors import Problem
from dynq_cli.spec.nodes import Node, RefusedNode, Scalar
from dynq_cli.spec.shown import shown
from dynq_cli.spec.source import Source

Entry = tuple[Node, Node]
_NAME = re.compile(r"\w+")
_COLON = re.compile(r"\s*:")


def mend_map(entries: list[Entry], source: Source) -> tuple[list[Entry], list[Problem]]:
    """The entries of a map in braces with each cut value replaced by a RefusedNode."""
    mended: list[Entry] = []
    problems: list[Problem] = []
    at = 0
    while at < len(entries):
        key, value = entries[at]
        at += 1
        pieces: list[Scalar] = []
        if isinstance(value, Scalar) and value.plain and value.value:
            while at + len(pieces) < len(entries) and (piece := _without_colon(entries[at + len(pieces)], source)):
                pieces.append(piece)
            if pieces and (_open_brackets(value.value) > 0 or not all(_NAME.fullmatch(p.value) for p in pieces)):
                problems.append(_problem(value, pieces[-1], source))
                value = RefusedNode(value.place)
                at += len(pieces)
        mended.append((key, value))
    return mended, problems


def mend_list(items: list[Node], source: Source) -> tuple[list[Node], list[Problem]]:
    """The items of a list in brackets with each cut item replaced by a RefusedNode."""
    mended: list[Node] = []
    problems: list[Problem] = []
    at = 0
    while at < len(items):
        first = last = items[at]
        at += 1
        if isinstance(first, Scalar) and first.plain:
            open_brackets = _open_brackets(first.value)
            while open_brackets > 0 and at < len(items):
                piece = items[at]
                if not isinstance(piece, Scalar):
                    break
                open_brackets += _open_brackets(piece.value) if piece.plain else 0
                last = piece
                at += 1
            if isinstance(last, Scalar) and last is not first:
                problems.append(_problem(first, last, source))
                first = RefusedNode(first.place)
        mended.append(first)
    return mended, problems


def _without_colon(entry: Entry, source: Source) -> Scalar | None:
    key, value = entry
    if not (isinstance(key, Scalar) and key.plain and isinstance(value, Scalar) and value.absent):
        return None
    return None if _COLON.match(source.text, key.span[1]) else key


def _open_brackets(text: str) -> int:
    return text.count("(") - text.count(")")


def _problem(first: Scalar, last: Scalar, source: Source) -> Problem:
    meant = " ".join(source.text[first.span[0] : last.span[1]].split())
    quoted = f'"{meant}"' if '"' not in meant and "\\" not in meant else "'" + meant.replace("'", "''") + "'"
    message = f"{shown(first.value)} is cut off at its comma: an unquoted text ends there between braces or brackets"
    return Problem(first.place, message, f"put the whole text in quotes: {shown(quoted)}")
