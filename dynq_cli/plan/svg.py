"""Draw what a program keeps as SVG: an outline with a box per line; what feeds a box stands below it, indented.

    as_svg(frame)           one `<svg>` element, which takes its colours from the page that it stands in
    as_svg(frame, rows)     the same with the number of rows that boxes have

Lines are those of `picture`: bold for a guard, dashed for rows in groups, dotted where changes are passed on. The text
of a box that is too long is cut; its title has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from types import MappingProxyType

from dynq_cli.plan.picture import Box, Frame, Line

_ROW, _STEP, _CHAR, _PAD = 34, 26, 7.2, 10
_LONGEST = 64


def as_svg(frame: Frame, rows: Mapping[tuple[str, int], int] = MappingProxyType({})) -> str:
    """Draw a query; `rows` are the rows of boxes (`Box.of`). O(boxes)."""
    outline = list(_outline(frame))
    beside = [_by(line, rows.get(box.of) if box.of else None) for box, _, line, _ in outline]
    widths = [
        depth * _STEP + 2 * _PAD + _CHAR * (len(_cut(box.text)) + len(text))
        for (box, depth, _, _), text in zip(outline, beside, strict=True)
    ]
    width, height = int(max(widths, default=0)) + 24, _ROW * len(outline) + 6
    parts = [
        f'<svg class="tree" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{escape(frame.title)}</title>",
    ]
    for number, (box, depth, line, above) in enumerate(outline):
        x, y = depth * _STEP + 4, number * _ROW + 4
        if line is not None:
            left = x - _STEP + 12
            top = above * _ROW + 4 + 26
            parts.append(f'<path class="line {line.kind}" d="M{left} {top}V{y + 13}H{x}"/>')
        text = _cut(box.text)
        wide = _CHAR * len(text) + 2 * _PAD
        kind = box.kind.replace(" ", "-")
        parts.append(
            f'<g class="box {kind}"><title>{escape(box.text)}</title>'
            f'<rect x="{x}" y="{y}" width="{wide:.0f}" height="26" rx="{13 if "[" in text else 4}"/>'
            f'<text x="{x + _PAD}" y="{y + 17.5}">{escape(text)}</text></g>'
        )
        if beside[number]:
            parts.append(f'<text class="by" x="{x + wide + 8:.0f}" y="{y + 17.5}">{escape(beside[number])}</text>')
    return "".join([*parts, "</svg>"])


def _outline(frame: Frame) -> Iterator[tuple[Box, int, Line | None, int]]:
    """Yield each box once with its depth, the line that leads to it, and the row of the box above."""
    boxes = {box.name: box for box in frame.all_boxes()}
    lines = list(_lines(frame))
    below: dict[str, list[Line]] = {}
    for each in lines:
        below.setdefault(each.upper, []).append(each)
    reached = {each.lower for each in lines}
    seen: dict[str, int] = {}
    # The result is read from what comes last.
    todo: list[tuple[str, int, Line | None]] = [(n, 0, None) for n in boxes if n not in reached]
    while todo:
        name, depth, line = todo.pop()
        if name in seen:
            continue
        seen[name] = len(seen)
        yield boxes[name], depth, line, seen[line.upper] if line is not None else 0
        todo += [(each.lower, depth + 1, each) for each in reversed(below.get(name, []))]


def _lines(frame: Frame) -> Iterator[Line]:
    yield from frame.lines
    for inner in frame.frames:
        yield from _lines(inner)


def _by(line: Line | None, rows: int | None) -> str:
    """What stands beside a box: how it is read from above, and how many rows it has."""
    words = {"feeds": "fed by", "less": "less", "reads": "reads"}
    read = "" if line is None else line.text or words.get(line.kind, "")
    many = "" if rows is None else f"{rows:,} row{'' if rows == 1 else 's'}"
    return " · ".join(text for text in (read, many) if text)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
