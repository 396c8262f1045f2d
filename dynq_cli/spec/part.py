"""Part of a spec, as a spec: some of its relations, queries and models, with the texts that they have."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from dynq_cli.spec.nodes import ListNode, MapNode, Node, Scalar
from dynq_cli.spec.source import source_of
from dynq_cli.spec.yaml import read_yaml

_OUTSIDE_ASCII = re.compile("[^\n\x20-\x7e]")


def part_of(text: str, relations: Collection[str], queries: Collection[str], models: Collection[str] = ()) -> str:
    """Return a spec with these relations, queries and models of a valid spec only, and no outputs.

    >>> spec = '''
    ... version: 1
    ... relations: {R: {columns: {x: int64}}, S: {columns: {y: int64?}}}
    ... queries: {q: {rule: "q(x) :- R(x)"}, p: {rule: "p(y) :- S(y)"}}
    ... '''
    >>> print(part_of(spec, ["S"], ["p"]))
    {"version": "1",
    "relations": {"S": {"columns": {"y": "int64?"}}},
    "queries": {"p": {"rule": "p(y) :- S(y)"}}}
    """
    root, _ = read_yaml(source_of(text, "spec"))
    assert isinstance(root, MapNode)
    kept = {"relations": relations, "queries": queries, "models": models}
    parts = []
    for key, value in root.entries:
        if key.value in kept and isinstance(value, MapNode):
            names = kept[key.value]
            value = MapNode(tuple((k, v) for k, v in value.entries if k.value in names), value.place)
            if not value.entries:
                continue
        if key.value == "version" or key.value in kept:
            parts.append(f"{_quoted(key.value)}: {_written(value)}")
    return "{" + ",\n".join(parts) + "}"


def _written(node: Node) -> str:
    """A node as JSON, which is YAML; a value that is absent stays so."""
    if isinstance(node, Scalar):
        return "" if node.absent else _quoted(node.value)
    if isinstance(node, ListNode):
        return f"[{', '.join(map(_written, node.items))}]"
    assert isinstance(node, MapNode)
    return "{" + ", ".join(f"{_quoted(k.value)}: {_written(v)}" for k, v in node.entries) + "}"


def _quoted(value: str) -> str:
    # JSON writes characters beyond 16 bits as two escapes, which YAML reads as two halves.
    text = json.dumps(value, ensure_ascii=False)
    return _OUTSIDE_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", text)
