"""What formulas mean: examples from textbooks, from restarts and diffs to recomputation by DuckDB."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.session.explain import Explanation
from dynq_cli.storage.plans import plan_spec
from dynq_cli.storage.state import State

RELATIONS = """
version: 1
relations:
  E: {columns: {x: int64, y: int64}}
  S: {columns: {x: "int64?"}}
  C: {columns: {x: int64, colour: string}}
queries:
"""
EDGES = [(1, 2), (2, 1), (2, 3), (3, 1), (4, 4)]
COLOURS = [(1, "red"), (2, "blue"), (3, "red"), (4, "red")]
ROWS = {
    "E": pa.table({"x": [x for x, _ in EDGES], "y": [y for _, y in EDGES]}),
    "S": pa.table({"x": pa.array([1, 3, None], pa.int64())}),
    "C": pa.table({"x": [x for x, _ in COLOURS], "colour": [c for _, c in COLOURS]}),
}
EXPECTED: dict[str, list[tuple[object, ...]]] = {
    "q(x, y) := E(x, y) and not E(y, x)": [(2, 3), (3, 1)],
    "q(x) := forall y: E(x, y) -> S(y)": [(2,), (3,)],
    "q(x) := exists y: E(x, y) and x = y": [(4,)],
    "q(x) := exists>=2 y: E(x, y)": [(2,)],
    "q(x) := exists=1 y: E(x, y)": [(1,), (3,), (4,)],
    "q(x) := exists<=1 y: E(x, y)": [(1,), (3,), (4,)],
    "q(y) := exists[0 mod 2] x: E(x, y)": [(1,)],
    "q() := exists[0 mod 2] x: S(x)": [()],
    "q() := exists[1 mod 2] x: S(x)": [],
    "q() := forall x, y: E(x, y) -> exists z: E(y, z)": [()],
    "q(x) := S(x) <-> exists y: E(x, y) and E(y, x)": [(1,)],
    "q(x, c) := C(x, c) and not exists y: E(x, y) and C(y, c)": [(1, "red"), (2, "blue")],
    "q(x) := C(x, 'red') and x > 1 and not S(x)": [(4,)],
    "q(x, y) := E(x, y) and x < y": [(1, 2), (2, 3)],
    "q(x) := exists y: E(x, y) and y = x + 1": [(1,), (2,)],
    "q(x) := S(x) or exists=2 y: E(x, y)": [(1,), (2,), (3,)],
    "q(x, y) := not E(x, y) and S(x) and S(y)": [(1, 1), (1, 3), (3, 3)],
    "q(x) := exists>=2 y: E(x, y) and exists>=2 z: E(z, y)": [],
    # All values less the near ones.
    "q(x) := S(x) and forall y: S(y) -> E(x, y) or x = y": [(3,)],
    "q(x) := forall y: S(y) -> E(x, y)": [(2,)],
    "q(x) := forall y: S(y) -> E(y, x) or x = y": [(1,)],
    "q(x) := exists>=2 y: S(y) and not E(x, y)": [(1,), (4,)],
    "q(x) := exists=1 y: S(y) and not E(x, y)": [(3,)],
    "q(x) := S(x) and exists[0 mod 2] y: not E(x, y)": [],
    "q(x) := S(x) and exists y: C(y, 'red') and not E(x, y)": [(1,), (3,)],
    "q() := exists x: S(x) and forall y: S(y) -> not E(x, y)": [
        (),
    ],
    "q() := forall x, y: S(x) and S(y) -> E(x, y)": [],
    "q(c) := exists x: C(x, c) and exists>=3 y: C(y, 'red') and not E(x, y)": [("red",)],
}


def _rows(view: State) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for batch in view.enum("q") for row in batch.to_pylist())


@pytest.mark.parametrize(("formula", "expected"), EXPECTED.items())
def test_a_formula_has_the_rows_that_satisfy_it(
    formula: str, expected: list[tuple[object, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(f'{RELATIONS}  q: {{formula: "{formula}"}}\n')
    with dynq_cli.create("spec.yaml") as view:
        view.apply(ROWS)
        assert _rows(view) == expected
        assert view.counts("q").rows == len(expected)


def test_what_a_formula_keeps_survives_a_restart_and_agrees_with_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = "".join(f'  q{i}: {{formula: "{f.replace("q(", f"q{i}(", 1)}"}}\n' for i, f in enumerate(EXPECTED))
    Path("spec.yaml").write_text(RELATIONS + listed)
    with dynq_cli.create("spec.yaml") as view:
        view.apply(ROWS)
    with dynq_cli.open() as view:
        view.apply(pa.table({"_change_type": ["delete", "insert"], "x": [3, 3], "y": [1, 4]}), "E")
    assert main(["verify"]) == 0
    assert main(["diff", "-q", "q0"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()[-2:]) == ["3,1,delete", "3,4,insert"]
    assert main(["check"]) == 0


def test_the_empty_database_has_an_even_number_of_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(f'{RELATIONS}  q: {{formula: "q() := exists[0 mod 2] x: S(x)"}}\n')
    with dynq_cli.create("spec.yaml") as view:
        assert view.counts("q").rows == 1
        view.apply(pa.table({"x": [7]}), "S")
        assert view.counts("q").rows == 0
        view.apply(pa.table({"_change_type": ["delete"], "x": [7]}), "S")
        assert view.counts("q").rows == 1


def test_alternatives_past_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    many = " and ".join(f"(E(x, {i}) or not E({i}, y))" for i in range(8))
    Path("spec.yaml").write_text(f'{RELATIONS}  q: {{formula: "q(x, y) := {many}"}}\n')
    with pytest.raises(dynq_cli.errors.SpecError, match="more than 64 alternatives"):
        dynq_cli.create("spec.yaml")


# The thesis' Figure 12.1: which green vertices are adjacent to none of b, r and y. From the second on, one is left of
# each of the four colours.
FIGURE = """
version: 1
relations:
  edge: {columns: {a: string, b: string}}
  blue: {columns: {v: string}}
  red: {columns: {v: string}}
  yellow: {columns: {v: string}}
  green: {columns: {v: string}}
queries:
  q:
    keep: rows
    formula: >
      q(b, r, y, g) := blue(b) and red(r) and yellow(y) and green(g) and not edge(b, r) and not edge(b, y)
      and not edge(b, g) and not edge(r, y) and not edge(r, g) and not edge(y, g)
"""


def test_rows_of_four_colours_are_read_without_storing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(FIGURE)
    assert "not the result" in dynq_cli.explain_spec("spec.yaml").text()
    edges = [("b", "g1"), ("b", "g2"), ("b", "g3"), ("r", "g4"), ("y", "g6")]
    with dynq_cli.create("spec.yaml") as view:
        view.apply(
            {
                "edge": pa.table({"a": [a for a, _ in edges], "b": [b for _, b in edges]}),
                "green": pa.table({"v": [f"g{i}" for i in range(1, 7)]}),
                **{name: pa.table({"v": [name[0]]}) for name in ("blue", "red", "yellow")},
            }
        )
        assert _rows(view) == [("b", "r", "y", "g5")]
        view.apply(pa.table({"_change_type": ["delete", "insert"], "a": ["b", "y"], "b": ["g2", "g5"]}), "edge")
        assert _rows(view) == [("b", "r", "y", "g2")]
        view.apply(pa.table({"a": ["b"], "b": ["y"]}), "edge")
        assert _rows(view) == []


def test_what_is_left_when_the_last_row_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {
        "none": "none() := not exists x, y: E(x, y)",
        "even": "even() := exists[0 mod 2] x: S(x)",
        "all": "all() := forall x: S(x) -> exists y: E(x, y)",
        "far": "far() := exists x: S(x) and forall y: S(y) -> E(x, y)",
    }
    listed = "".join(f'  {name}: {{formula: "{text}"}}\n' for name, text in asked.items())
    Path("spec.yaml").write_text(RELATIONS + listed)
    with dynq_cli.create("spec.yaml") as view:

        def held() -> list[str]:
            return [name for name in asked if view.counts(name).rows]

        assert held() == ["none", "even", "all"]
        view.apply({"E": pa.table({"x": [7], "y": [7]}), "S": pa.table({"x": [7]})})
        assert held() == ["all", "far"]
        view.apply(pa.table({"_change_type": ["delete"], "x": [7], "y": [7]}), "E")
        assert held() == ["none"]
        view.apply(pa.table({"_change_type": ["delete"], "x": [7]}), "S")
        assert held() == ["none", "even", "all"]


def test_explain_says_what_is_understood_and_how_far_a_change_reaches() -> None:
    text = """
version: 1
relations:
  E: {columns: {x: int64, y: int64}, max_degree: 2}
  S: {columns: {x: int64}, max_degree: 1}
queries:
  two: {formula: "two(x) := S(x) and forall y: E(x, y) -> exists z: E(y, z)"}
  far: {formula: "far(x) := S(x) and forall y: S(y) -> E(x, y)"}
  all: {formula: "all() := forall x: S(x) -> exists y: E(x, y)"}
"""
    planned = plan_spec(text)
    explained = Explanation(planned.spec, dict(planned.plans))
    said = explained.json()["queries"]
    assert isinstance(said, dict)
    two, far, closed = (said[name]["formula"] for name in ("two", "far", "all"))
    assert two["text"] == "two(x) := S(x) and (not exists y: (E(x, y) and (not exists z: E(y, z))))"
    assert two["ranges"] == {"x": ("E.x", "E.y", "S.x"), "y": ("E.x", "E.y", "S.x"), "z": ("E.x", "E.y", "S.x")}
    # Each value is in two rows of either column: four others, sixteen behind them; a row has two values.
    assert (two["reach"], two["most"], two["far"]) == (2, 2 * (1 + 4 + 16), ())
    assert far["far"] == ("y",)
    assert (closed["reach"], closed["most"]) == (None, None)
    assert "reach       2: a change matters to values at most 2 atoms away, at most 42" in explained.text("two")
