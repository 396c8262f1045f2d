"""A view tree as text."""

from __future__ import annotations

from collections.abc import Iterator

from dynq_cli.plan.plan import Plan
from dynq_cli.plan.view_tree import Node

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
