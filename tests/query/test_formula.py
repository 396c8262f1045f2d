"""What formulas mean: examples from textbooks, from restarts and diffs to recomputation by DuckDB."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
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
