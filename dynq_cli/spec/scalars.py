"""Map each character of a YAML scalar's value to its place in the file.

`scalar_anchors` walks the source of one scalar by the rules that turned it into a value and
gives `anchors` such that

    source[anchor.index + (i - anchor.offset)]  is the character that became  value[i]

for the last anchor whose offset is not above i. An escape stands where its backslash is, a
folded line break where the break is. Between two anchors the source has no line break.
"""

from __future__ import annotations

import re

_ESCAPE_DIGITS = {"x": 2, "u": 4, "U": 8}
_BLANKS = re.compile("[ \t]*")
_FLOW_RUN = {
    None: re.compile("[^ \t\n]+"),
    "'": re.compile("[^ \t\n']+"),
    '"': re.compile(r'[^ \t\n\\"]+'),
}
_BLOCK_HEADER = re.compile("[|>]([-+0-9]*)[^\n]*\n?")


class _Runs:
    """Collects anchors while the walk emits runs of source characters."""

    def __init__(self) -> None:
        self.anchors: list[tuple[int, int]] = []
        self.offset = 0
        self._next: int | None = None

    def emit(self, index: int, length: int = 1) -> None:
        if not length:
            return
        if index != self._next:
            self.anchors.append((self.offset, index))
        self.offset += length
        self._next = index + length

    def emit_breaks(self, indices: list[int]) -> None:
        for index in indices:
            self.emit(index)
            self._next = None


def scalar_anchors(
    source: str, start: int, end: int, style: str | None, parent_indent: int
) -> tuple[list[tuple[int, int]], int]:
    """The anchors (offset in value, index in source) and the length of the value.

    `style` is None for plain scalars, else the first character of the scalar. `parent_indent`
    is the indentation of the surrounding block (-1 at the top); only block scalars use it.
    """
    runs = _Runs()
    if style is None:
        _walk_flow(runs, source, start, end, None)
    elif style in "'\"":
        _walk_flow(runs, source, start + 1, end - 1, style)
    else:
        _walk_block(runs, source, start, parent_indent)
    return runs.anchors or [(0, start)], runs.offset


def _walk_flow(runs: _Runs, source: str, at: int, end: int, style: str | None) -> None:
    ordinary = _FLOW_RUN[style]
    while at < end:
        char = source[at]
        if char in " \t\n":
            at = _walk_space(runs, source, at, end)
        elif char == "\\" and style == '"':
            at = _walk_escape(runs, source, at, end)
        elif char == "'" and style == "'":
            runs.emit(at)
            at += 2
        else:
            found = ordinary.match(source, at, end)
            stop = found.end() if found else at + 1
            runs.emit(at, stop - at)
            at = stop


def _walk_space(runs: _Runs, source: str, at: int, end: int) -> int:
    """Blanks stay; blanks around line breaks fold to one space, or to the breaks after the first."""
    stop = _skip_blanks(source, at, end)
    if stop == end or source[stop] != "\n":
        runs.emit(at, stop - at)
        return stop
    breaks, after = _flow_breaks(source, stop + 1, end)
    runs.emit_breaks(breaks or [stop])
    return after


def _walk_escape(runs: _Runs, source: str, at: int, end: int) -> int:
    kind = source[at + 1]
    if kind == "\n":
        breaks, after = _flow_breaks(source, at + 2, end)
        runs.emit_breaks(breaks)
        return after
    runs.emit(at)
    return at + 2 + _ESCAPE_DIGITS.get(kind, 0)


def _flow_breaks(source: str, at: int, end: int) -> tuple[list[int], int]:
    breaks = []
    at = _skip_blanks(source, at, end)
    while at < end and source[at] == "\n":
        breaks.append(at)
        at = _skip_blanks(source, at + 1, end)
    return breaks, at


def _skip_blanks(source: str, at: int, end: int) -> int:
    found = _BLANKS.match(source, at, end)
    return found.end() if found else at


def _walk_block(runs: _Runs, source: str, start: int, parent_indent: int) -> None:
    header = _BLOCK_HEADER.match(source, start)
    if header is None:
        return
    indicators = header[1]
    least = max(parent_indent + 1, 1)
    digit = next((int(c) for c in indicators if c.isdigit()), None)
    indent = max(least, _detected_indent(source, header.end())) if digit is None else least + digit - 1
    breaks, at, inside = _block_breaks(source, header.end(), indent)
    line_end = None
    while inside:
        runs.emit_breaks(breaks)
        foldable = source[start] == ">" and source[at] not in " \t"
        found = source.find("\n", at)
        line_end = len(source) if found < 0 else found
        runs.emit(at, line_end - at)
        breaks, at, inside = _block_breaks(source, line_end + 1, indent)
        if inside and not (foldable and source[at] not in " \t" and breaks):
            runs.emit_breaks([line_end])
    if "-" not in indicators and line_end is not None and line_end < len(source):
        runs.emit_breaks([line_end])
    if "+" in indicators:
        runs.emit_breaks(breaks)


def _detected_indent(source: str, at: int) -> int:
    """The widest indentation among the leading blank lines and the first line with text."""
    widest = width = 0
    while at < len(source) and source[at] in " \n":
        width = width + 1 if source[at] == " " else 0
        widest = max(widest, width)
        at += 1
    return widest


def _block_breaks(source: str, at: int, indent: int) -> tuple[list[int], int, bool]:
    """From the start of a line: skipped breaks, where the next text begins, whether it is inside."""
    breaks: list[int] = []
    while True:
        width = 0
        while width < indent and at < len(source) and source[at] == " ":
            width += 1
            at += 1
        if at >= len(source) or source[at] != "\n":
            return breaks, at, width == indent and at < len(source)
        breaks.append(at)
        at += 1
