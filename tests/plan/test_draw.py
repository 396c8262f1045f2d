"""Pictures of trees say where each comparison holds: on an edge, or inside the node that is joined by it."""

from __future__ import annotations

from pathlib import Path

from dynq_cli.session.explain import explain_spec

FRAUD = Path(__file__).parents[2] / "specs" / "fraud.yaml"


def test_a_joined_node_says_by_what_it_is_joined_and_its_edge_does_not() -> None:
    explained = explain_spec(FRAUD)
    for picture, edge in ((explained.mermaid(), "==>"), (explained.dot(), "->")):
        (node,) = [line for line in picture.splitlines() if "⋈" in line]
        assert "1 hour" in node
        assert not [line for line in picture.splitlines() if edge in line and "1 hour" in line]


def test_a_comparison_between_a_node_and_its_child_stands_on_the_edge() -> None:
    dot = explain_spec(FRAUD).dot()
    (edge,) = [line for line in dot.splitlines() if "->" in line and "s2_ts" in line]
    assert "s1_ts < s2_ts, s2_ts < l_ts" in edge and "dashed" in edge
