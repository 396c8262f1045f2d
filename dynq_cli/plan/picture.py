"""Draw what a program keeps: boxes and lines, which `as_dot` and `as_mermaid` write as text.

Each tree stands in a frame, its root on top. A relation between trees stands below the leaf that reads it and above the
trees that feed it, so rows flow upwards. Pictures of several queries are arranged in rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dynq_cli.plan.draw import label
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Cycle, Derived, Lookups, Program, Together, Tree, passages, relayed
from dynq_cli.plan.program_cost import places_of
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import ConjunctiveQuery

BoxKind = Literal["view", "result", "leaf", "result leaf", "table", "groups", "passed", "union", "tested", "end"]
LineKind = Literal["guard", "groups", "range", "feeds", "less", "reads"]

_MERMAID = {'"': "#quot;", "<": "#lt;", ">": "#gt;"}
_DOT = {"\\": "\\\\", '"': '\\"'}
# How boxes and lines look: (Mermaid's brackets, attributes of DOT).
_BOXES: dict[BoxKind, tuple[str, str, str]] = {
    "view": ("(", ")", "shape=ellipse"),
    "result": ("((", "))", "shape=ellipse, peripheries=2"),
    "leaf": ("[", "]", "shape=box"),
    "result leaf": ("[[", "]]", "shape=box, peripheries=2"),
    "table": ("[(", ")]", 'shape=cylinder, style=filled, fillcolor="#fde9c8"'),
    "groups": ("[(", ")]", 'shape=cylinder, style=filled, fillcolor="#d9ead3"'),
    "passed": ("[/", "/]", "shape=box, style=dashed"),
    "union": ("{{", "}}", "shape=hexagon"),
    "tested": ("{{", "}}", "shape=hexagon, style=dashed"),
    "end": ("((", "))", "shape=point"),
}
_LINES: dict[LineKind, tuple[str, str]] = {
    "guard": ("==>", "style=bold"),
    "groups": ("-->", "style=dashed"),
    "range": ("-->", "style=dashed, color=blue, fontcolor=blue"),
    "feeds": ("-.->", 'dir=back, color="#38761d", fontcolor="#38761d"'),
    "less": ("-.->", "dir=back, color=red, fontcolor=red"),
    "reads": ("-.->", "dir=back, color=gray40, fontcolor=gray40"),
}
_LEGEND: Sequence[tuple[BoxKind, str]] = (
    ("view", "view: one row per value"),
    ("result", "view that the result is read from"),
    ("leaf", "rows of a relation, after filters"),
    ("result leaf", "rows that the result is read from"),
    ("table", "stored rows between trees"),
    ("groups", "stored groups, with aggregates"),
    ("passed", "rows passed on, not stored"),
    ("union", "read from several trees, not stored"),
    ("tested", "rows looked up in trees, nothing else read"),
)
_LINE_LEGEND: Sequence[tuple[LineKind, str]] = (
    ("guard", "guard: one row above"),
    ("groups", "rows in groups by …"),
    ("range", "rows in order, read in ranges"),
    ("feeds", "changes of the result go there"),
    ("less", "taken away: NOT EXISTS, !="),
    ("reads", "its rows are the leaf's"),
)


_LEGEND_COLUMNS = 3


@dataclass(frozen=True)
class Box:
    """`of` says whose rows these are: a step, and the number of a node, children first, or of a cycle's atom, or 0."""

    name: str
    text: str
    kind: BoxKind
    of: tuple[str, int] | None = None


@dataclass(frozen=True)
class Line:
    """Drawn from the upper box to the lower one."""

    upper: str
    lower: str
    kind: LineKind
    text: str = ""


@dataclass
class Frame:
    """Boxes under a title, with frames inside; `under` are boxes that stand one below the other for no other reason."""

    name: str
    title: str
    boxes: list[Box] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    under: list[tuple[Box, Box]] = field(default_factory=list)

    def all_boxes(self) -> Iterator[Box]:
        yield from self.boxes
        for frame in self.frames:
            yield from frame.all_boxes()


def frame_of(name: str, title: str, program: Program) -> Frame:
    """A query: its trees, the relations between them, and what is read together."""
    return _Drawing(name, title, program).frame


def legend(frames: Sequence[Frame]) -> Frame:
    """What the boxes and lines of some frames mean."""
    frame = Frame("legend", "legend")
    boxes, lines = {box.kind for f in frames for box in f.all_boxes()}, {line.kind for f in frames for line in f.lines}
    shown = [Box(f"legend_{kind.replace(' ', '_')}", text, kind) for kind, text in _LEGEND if kind in boxes]
    frame.boxes += shown
    # Boxes stand below each other, in columns; below them lines.
    frame.under += zip(shown, shown[_LEGEND_COLUMNS:], strict=False)
    above = shown[-_LEGEND_COLUMNS:]
    for i, (kind, text) in enumerate(each for each in _LINE_LEGEND if each[0] in lines):
        upper, lower = Box(f"legend_{kind}_upper", "", "end"), Box(f"legend_{kind}_lower", "", "end")
        frame.boxes += [upper, lower]
        frame.lines.append(Line(upper.name, lower.name, kind, text))
        frame.under.append((above[i % len(above)], upper))
    return frame


class _Drawing:
    def __init__(self, name: str, title: str, program: Program) -> None:
        self.frame = Frame(name, title)
        self.roots: dict[str, str] = {}
        self.passing, self.relayed = passages(program.steps), relayed(program.steps)
        for number, step in enumerate(program.steps):
            place = f"{name}_{number}"
            if isinstance(step, Derived):
                self._derived(place, step)
            elif isinstance(step, Together):
                self._together(place, step)
            elif isinstance(step, Lookups):
                self._tested(place, step)
            elif isinstance(step, Cycle):
                self._cycle(place, step)
            elif step.name in self.passing:
                (atom,) = step.plan.query.atoms
                where = "".join(f"\nwhere {s.sql}" for s in atom.filters)
                self.frame.boxes.append(Box(place, atom.brief + where, "passed"))
                self.roots[step.name] = place
                self._reads(place, atom.source)
            else:
                self._tree(place, step)

    def _cycle(self, place: str, step: Cycle) -> None:
        """A cycle: its atoms, and the delta of their join."""
        inside = Frame(place, f"cycle {step.name}")
        self.frame.frames.append(inside)
        top = f"{place}_join"
        inside.boxes.append(Box(top, f"delta of {step.name}({', '.join(step.query.head)})", "passed"))
        self.roots[step.name] = top
        for i, atom in enumerate(step.query.atoms):
            name = f"{place}_{i}"
            where = "".join(f"\nwhere {s.sql}" for s in atom.filters)
            inside.boxes.append(Box(name, atom.brief + where, "leaf", (step.name, i)))
            shared = [v for v in (b.variable for b in atom.bindings) if _is_shared(step.query, v)]
            self.frame.lines.append(Line(top, name, "groups", f"by {' and '.join(shared)}"))
            self._reads(name, atom.source)

    def _tree(self, place: str, step: Tree) -> None:
        order = f", in the order of {', '.join(map(str, step.plan.order))}" if step.plan.order else ""
        inside = Frame(place, f"tree {step.name}{order}")
        self.frame.frames.append(inside)
        numbers = {id(node): (step.name, number) for number, node in enumerate(_children_first(step.plan.tree))}
        self.roots[step.name] = self._node(step.plan, step.plan.tree, inside, None, numbers)

    def _node(
        self,
        plan: Plan,
        node: Node,
        inside: Frame,
        parent: tuple[Node, str] | None,
        numbers: Mapping[int, tuple[str, int]],
    ) -> str:
        name = f"{inside.name}_{len(inside.boxes)}"
        kind: BoxKind = "result" if node.output else "view"
        text = label(plan, node)
        if node.atom is not None:
            kind = "result leaf" if node.output else "leaf"
            text += "".join(f"\nwhere {s.sql}" for s in plan.query.atoms[node.atom].filters)
        inside.boxes.append(Box(name, text, kind, numbers[id(node)]))
        if parent is not None:
            self.frame.lines.append(_edge(*parent, node, name))
        if node.atom is not None:
            self._reads(name, plan.query.atoms[node.atom].source)
        for child in node.children:
            self._node(plan, child, inside, (node, name), numbers)
        return name

    def _reads(self, name: str, source: str) -> None:
        if source in self.roots:
            self.frame.lines.append(Line(name, self.roots[source], "reads"))

    def _derived(self, place: str, step: Derived) -> None:
        kind: BoxKind
        if step.partitions is not None:
            text, kind = (
                f"{step.name}({', '.join(c.name for c in step.columns)})\n{places_of(step.partitions)}",
                "table",
            )
        elif step.groups is None:
            kind = "passed" if step.name in self.relayed else "table"
            text = f"{step.name}({', '.join(c.name for c in step.columns)})"
        else:
            per = f"per {', '.join(step.groups.keys)}" if step.groups.keys else "one row"
            made = [f"{m.aggregate.name} = {m.aggregate.function}" for m in step.groups.measures]
            text, kind = "\n".join([f"{step.name}: {per}", *made]), "groups"
        self.frame.boxes.append(Box(place, text, kind, (step.name, 0)))
        self.roots[step.name] = place
        for feed in step.feeds:
            where = " and ".join(map(str, feed.where))
            kind_of: LineKind = "feeds" if feed.sign == 1 else "less"
            self.frame.lines.append(Line(place, self.roots[feed.tree], kind_of, where))

    def _together(self, place: str, step: Together) -> None:
        where = f"\nwhere {' and '.join(map(str, step.where))}" if step.where else ""
        self.frame.boxes.append(Box(place, f"{step.name}{where}", "union"))
        self.frame.lines += [Line(place, self.roots[m.tree], "less", "rows") for m in step.lacking]
        for member in step.members:
            self.frame.lines.append(Line(place, self.roots[member.tree], "reads"))
        # What is counted only, to be taken off.
        counted = [t.tree for t in step.terms if t.tree not in {m.tree for m in step.read}]
        self.frame.lines += [Line(place, self.roots[tree], "less", "in the count") for tree in counted]

    def _tested(self, place: str, step: Lookups) -> None:
        self.frame.boxes.append(Box(place, step.name, "tested"))
        for number, each in enumerate(step.alternatives):
            above = place
            if len(step.alternatives) > 1 or each.where:
                above = f"{place}_{number}"
                where = " and ".join(map(str, each.where))
                self.frame.boxes.append(Box(above, f"all{f' and {where}' if where else ''}", "tested"))
                self.frame.lines.append(Line(place, above, "reads"))
            for lookup in each.lookups:
                kind: LineKind = "less" if lookup.counts == "absent" else "reads"
                self.frame.lines.append(Line(above, self.roots[lookup.tree], kind))


def _children_first(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield from _children_first(child)
    yield node


def _is_shared(query: ConjunctiveQuery, variable: str) -> bool:
    return sum(variable in a.variables for a in query.atoms) > 1


def _edge(parent: Node, upper: str, child: Node, lower: str) -> Line:
    compared = ", ".join(map(str, child.comparisons))
    if compared:
        return Line(upper, lower, "range", compared)
    if child.guards(parent):
        return Line(upper, lower, "guard")
    shared = ", ".join(parent.shared(child))
    return Line(upper, lower, "groups", f"by {shared}" if shared else "all")


def as_dot(frames: Sequence[Frame]) -> str:
    """A DOT digraph with the frames in rows, and the legend behind them."""
    several = [*frames, legend(frames)]
    lines = [
        "digraph dynq {",
        "  graph [fontname=Helvetica, ranksep=0.35, nodesep=0.25];",
        "  node [fontname=Helvetica, fontsize=11];",
        "  edge [fontname=Helvetica, fontsize=10, arrowsize=0.7];",
    ]
    for frame in several:
        lines += _dot_frame(frame, "  ")
        lines += [f"  {_dot_line(line)}" for line in frame.lines]
        lines += [f"  {upper.name} -> {lower.name} [style=invis];" for upper, lower in frame.under]
    lines += [f"  {lower} -> {upper} [style=invis, minlen=2];" for lower, upper in _below(several)]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_frame(frame: Frame, indent: str) -> Iterator[str]:
    yield f'{indent}subgraph cluster_{frame.name} {{ label="{_dot_text(frame.title)}"; color=gray60;'
    for box in frame.boxes:
        yield f'{indent}  {box.name} [label="{_dot_text(box.text)}", {_BOXES[box.kind][2]}];'
    for inside in frame.frames:
        yield from _dot_frame(inside, f"{indent}  ")
    yield f"{indent}}}"


def _dot_line(line: Line) -> str:
    text = f', label=" {_dot_text(line.text)} "' if line.text else ""
    return f"{line.upper} -> {line.lower} [{_LINES[line.kind][1]}{text}];"


def as_mermaid(frames: Sequence[Frame]) -> str:
    """A Mermaid flowchart with the frames in rows, and the legend behind them."""
    several = [*frames, legend(frames)]
    lines = ["flowchart TD"]
    for frame in several:
        lines += _mermaid_frame(frame, "  ")
        lines += [f"  {_mermaid_line(line)}" for line in frame.lines]
        lines += [f"  {upper.name} ~~~ {lower.name}" for upper, lower in frame.under]
    columns = _columns(several)
    lines += [f"  {upper.name} ~~~ {lower.name}" for upper, lower in zip(several, several[columns:], strict=False)]
    return "\n".join(lines) + "\n"


def _mermaid_frame(frame: Frame, indent: str) -> Iterator[str]:
    yield f'{indent}subgraph {frame.name}["{_mermaid_text(frame.title)}"]'
    for box in frame.boxes:
        start, end, _ = _BOXES[box.kind]
        yield f'{indent}  {box.name}{start}"{_mermaid_text(box.text) or " "}"{end}'
    for inside in frame.frames:
        yield from _mermaid_frame(inside, f"{indent}  ")
    yield f"{indent}end"


def _mermaid_line(line: Line) -> str:
    arrow = _LINES[line.kind][0]
    words = {"less": "without", "feeds": "", "reads": ""}.get(line.kind, "")
    text = " ".join(word for word in (words, line.text) if word)
    shown = f'|"{_mermaid_text(text)}"|' if text else ""
    # Rows flow upwards along these; Mermaid has no arrows that point backwards.
    upper, lower = (line.lower, line.upper) if arrow == "-.->" else (line.upper, line.lower)
    return f"{upper} {arrow}{shown} {lower}"


def _columns(frames: Sequence[Frame]) -> int:
    """How many frames stand side by side: about as many as rows."""
    return max(1, math.ceil(math.sqrt(len(frames))))


def _below(frames: Sequence[Frame]) -> Iterator[tuple[str, str]]:
    """From the lowest box of a frame to the highest of the frame in the next row."""
    columns = _columns(frames)
    for upper, lower in zip(frames, frames[columns:], strict=False):
        yield _lowest(upper), _highest(lower)


def _lowest(frame: Frame) -> str:
    depths = _depths(frame)
    return max(depths, key=lambda name: depths[name])


def _highest(frame: Frame) -> str:
    depths = _depths(frame)
    return min(depths, key=lambda name: depths[name])


def _depths(frame: Frame) -> dict[str, int]:
    """By box, the number of boxes above it."""
    depths = dict.fromkeys((box.name for box in frame.all_boxes()), 0)
    for _ in range(len(depths)):
        pairs = [(line.upper, line.lower) for line in frame.lines]
        pairs += [(upper.name, lower.name) for upper, lower in frame.under]
        changed = [(upper, lower) for upper, lower in pairs if depths[lower] < depths[upper] + 1]
        for upper, lower in changed:
            depths[lower] = depths[upper] + 1
        if not changed:
            break
    return depths


def _dot_text(text: str) -> str:
    return "".join(_DOT.get(c, c) for c in text).replace("\n", "\\n")


def _mermaid_text(text: str) -> str:
    return "".join(_MERMAID.get(c, c) for c in text).replace("\n", "<br>")
