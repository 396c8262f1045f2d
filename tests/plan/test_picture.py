"""Pictures show what is kept: trees, groups, tables between trees, what is taken away; with a legend, in rows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.session.explain import Explanation, explain_spec
from dynq_cli.spec.load import parse_spec

FRAUD = Path(__file__).parents[2] / "specs" / "fraud.yaml"
RELATIONS = """
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}}
queries:
"""


def explained(*queries: str) -> Explanation:
    text = RELATIONS
    for i, query in enumerate(queries):
        text += f"  q{i}:\n    {'rule' if ':-' in query else 'sql'}: |\n      {query}\n"
    spec = parse_spec(text, "spec.yaml")
    return Explanation(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})


def line(picture: str, *words: str) -> str:
    """The one line that has some words, the legend left out."""
    (found,) = [li for li in picture.splitlines() if all(w in li for w in words) and "legend" not in li]
    return found


def test_a_comparison_between_a_node_and_its_child_stands_on_the_edge() -> None:
    dot = explain_spec(FRAUD).dot()
    assert "color=blue" in line(dot, "->", "s1_ts < s2_ts, s2_ts < l_ts")
    assert 'label=" s1_ts < s2_ts, s2_ts < l_ts "' in dot


def test_joined_rows_and_groups_are_tables_that_trees_feed_and_leaves_read() -> None:
    dot = explained("q0(x, z) :- R(x, y), S(y, z)").dot()
    assert "shape=cylinder" in line(dot, 'label="q0/2(x, z)"', "fde9c8")
    table = line(dot, 'label="q0/2(x, z)"', "cylinder").split()[0]
    assert len(re.findall(rf"\n  {table} -> \w+ \[dir=back, color=\"#38761d\"", dot)) == 1, "fed by a tree"
    assert len(re.findall(rf"\n  \w+ -> {table} \[dir=back, color=gray40", dot)) == 1, "read by a leaf"
    groups = explained("SELECT y, COUNT(*) AS n FROM R GROUP BY y").dot()
    assert "shape=cylinder" in line(groups, "q0/2: per y\\nn = count")
    assert "style=dashed" in line(groups, 'label="R(y)"'), "rows that are passed on have no table"


def test_rows_that_are_taken_away_are_said_to_be() -> None:
    query = "SELECT x FROM R WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.y = R.y)"
    assert line(explained(query).dot(), "color=red")
    assert line(explained(query).mermaid(), '-.->|"without"|')


def test_groups_of_a_child_that_is_no_guard_say_by_what() -> None:
    query = "SELECT R.x, R.y, S.z FROM R JOIN S ON R.y = S.y ORDER BY R.x, R.y"
    assert line(explained(query).dot(), "style=dashed", 'label=" by y "')
    assert "in the order of x, y, z" in explained(query).dot()


def test_a_legend_says_what_there_is_and_nothing_else() -> None:
    for picture in (explained("q0(x, y) :- R(x, y)").dot(), explained("q0(x, y) :- R(x, y)").mermaid()):
        assert "rows that the result is read from" in picture
        assert "stored" not in picture
    assert "stored rows between trees" in explained("q0(x, z) :- R(x, y), S(y, z)").mermaid()


def test_many_queries_stand_in_rows() -> None:
    many = explained(*[f"q{i}(x, y, z) :- R(x, y), S(y, z)" for i in range(14)])
    # With the legend 15 frames: four columns, so all but the last row have a frame below.
    assert len(re.findall(r"style=invis, minlen=2", many.dot())) == 11
    assert len(re.findall(r"^  q\d+ ~~~ (?:q\d+|legend)$", many.mermaid(), re.MULTILINE)) == 11


def test_every_line_is_between_boxes_that_there_are() -> None:
    for spec in sorted(FRAUD.parent.rglob("*.yaml")):
        found = explain_spec(spec)
        dot, mermaid = found.dot(), found.mermaid()
        boxes = set(re.findall(r"^\s+(\w+) \[label=", dot, re.MULTILINE))
        for upper, lower in re.findall(r"^  (\w+) -> (\w+) ", dot, re.MULTILINE):
            assert {upper, lower} <= boxes, (spec, upper, lower)
        assert mermaid.count("subgraph ") == len(re.findall(r"^\s+end$", mermaid, re.MULTILINE))


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_every_spec_and_many_queries_not_as_one_line() -> None:
    for spec in sorted(FRAUD.parent.rglob("*.yaml")):
        made = subprocess.run(
            ["dot", "-Tplain"], input=explain_spec(spec).dot(), capture_output=True, text=True, check=True
        )
        assert not made.stderr, (spec, made.stderr)
        _, _, width, height, *_ = made.stdout.split()
        if spec.name == "iedyn.yaml":
            assert float(width) < 4 * float(height), "rows, not one line"
