"""Pictures of a view tree: as text, as Mermaid, as DOT."""

from __future__ import annotations

from collections.abc import Iterator

from dynq_cli.plan.plan import Plan
from dynq_cli.plan.view_tree import Node

_MERMAID = {'"': "#quot;", "<": "#lt;", ">": "#gt;"}
_DOT = {"\\": "\\\\", '"': '\\"'}
LEGEND = "● in the output set   ═ guard of its parent   ─ not a guard"


def label(plan: Plan, node: Node) -> str:
    """A leaf by its atom, an inner node by its variables."""
    if node.atom is not None:
        return plan.query.atoms[node.atom].brief
    inside = ", ".join(node.variables)
    return f"⋈ [{inside}]" if node.kind == "join" else f"[{inside}]"


def draw_text(plan: Plan, tree: Node) -> Iterator[str]:
    """The tree, a line a node: guards by double lines, output nodes by a dot."""
    yield f"{label(plan, tree)}{_marks(tree)}"
    yield from _below(plan, tree, "")


def _below(plan: Plan, node: Node, indent: str) -> Iterator[str]:
    for i, child in enumerate(node.children):
        last = i == len(node.children) - 1
        line = "═" if child.guards(node) else "─"
        corner = ("╘" if last else "╞") if line == "═" else ("└" if last else "├")
        yield f"{indent}{corner}{line}{line} {label(plan, child)}{_marks(child)}"
        yield from _below(plan, child, indent + ("    " if last else "│   "))


def _marks(node: Node) -> str:
    dot = " ●" if node.output else ""
    compared = [*node.comparisons, *node.joined_by]
    return dot + (f"   where {', '.join(map(str, compared))}" if compared else "")


def _box(plan: Plan, node: Node) -> str:
    """What stands in a node of a picture: a joined node says by what it is joined."""
    return label(plan, node) + (f" where {', '.join(map(str, node.joined_by))}" if node.joined_by else "")


def draw_mermaid(plan: Plan, tree: Node, prefix: str = "n") -> Iterator[str]:
    """A `flowchart TD`: thick arrows to guards, double boxes for output nodes."""
    for number, (parent, node) in enumerate(_numbered(tree)):
        name, text = f"{prefix}{number}", _escaped(_box(plan, node), _MERMAID)
        yield f'  {name}[["{text}"]]' if node.output else f'  {name}["{text}"]'
        if parent is not None:
            arrow = "==>" if node.guards(_at(tree, parent)) else "-->"
            compared = ", ".join(map(str, node.comparisons))
            shown = f'|"{_escaped(compared, _MERMAID)}"|' if compared else ""
            yield f"  {prefix}{parent} {arrow}{shown} {name}"


def draw_dot(plan: Plan, tree: Node, prefix: str = "n") -> Iterator[str]:
    """Nodes and edges for a DOT digraph: bold edges to guards, double borders for output nodes."""
    for number, (parent, node) in enumerate(_numbered(tree)):
        name, text = f"{prefix}{number}", _escaped(_box(plan, node), _DOT)
        shape = "box" if node.atom is not None else "ellipse"
        yield f'  {name} [label="{text}", shape={shape}, peripheries={2 if node.output else 1}];'
        if parent is not None:
            style = "bold" if node.guards(_at(tree, parent)) else "dashed"
            compared = _escaped(", ".join(map(str, node.comparisons)), _DOT)
            yield f'  {prefix}{parent} -> {name} [style={style}, label="{compared}"];'


def _numbered(tree: Node) -> Iterator[tuple[int | None, Node]]:
    """Nodes in preorder, as `walk` gives them, with the number of their parent."""
    todo: list[tuple[int | None, Node]] = [(None, tree)]
    number = 0
    while todo:
        parent, node = todo.pop()
        yield parent, node
        todo += [(number, child) for child in reversed(node.children)]
        number += 1


def _at(tree: Node, number: int) -> Node:
    return next(node for i, node in enumerate(tree.walk()) if i == number)


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(c, c) for c in text)
