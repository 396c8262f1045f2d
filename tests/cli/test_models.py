"""`dynq fit`, `dynq moments`, and models among the outputs of `dynq run`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main

SPEC = """\
version: 1
relations:
  R: {columns: {g: string, x: int64, y: "decimal(9,2)"}}
queries:
  q: {sql: "SELECT g, x, y FROM R"}
  rows: {sql: "SELECT x FROM R UNION SELECT x + 1 FROM R", keep: rows}
models:
  line: {over: q, label: y, features: [x]}
  lines: {over: q, label: y, features: [x], per: [g]}
outputs:
  - {model: line, kind: model, path: "out/line-{version}.json"}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    with dynq_cli.create("spec.yaml") as view:
        prices = pa.array(["1.50", "2.50", "3.50", "7.00"]).cast(pa.decimal128(9, 2))
        view.apply(pa.table({"g": ["a", "a", "a", "b"], "x": [1, 2, 3, 5], "y": prices}), "R")
        view.apply(pa.table({"g": ["a"], "x": [9], "y": prices[:1]}), "R")


def _out(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main([*args]) == 0
    return capsys.readouterr().out


def test_fit_prints_coefficients_and_how_good_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(_out(capsys, "fit", "-m", "line", "--at", "1"))
    assert said["coefficients"]["1"] == pytest.approx(-13 / 70)
    assert said["coefficients"]["x"] == pytest.approx(97 / 70)
    assert said["n"] == 4 and said["version"] == 1
    assert said["sse"] > 0 and said["r2"] == pytest.approx(97 / 70 * 12.125 / 17.1875)


def test_exact_coefficients_are_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(_out(capsys, "fit", "-m", "line", "--at", "1", "--exact"))
    assert said["coefficients"] == {"1": "-13/70", "x": "97/70"}


def test_a_model_per_group_names_what_depends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-m", "lines", "--at", "1"]) == 0
    captured = capsys.readouterr()
    first, second = json.loads(captured.out)["groups"]
    assert first["group"] == {"g": "a"} and first["coefficients"] == {"1": 0.5, "x": 1.0} and first["r2"] == 1.0
    assert second["dependent"] == ["x"] and second["coefficients"] == {"1": 7.0, "x": 0.0} and second["r2"] is None
    assert "x of b depends on the terms before it" in captured.err


def test_moments_are_exact(capsys: pytest.CaptureFixture[str]) -> None:
    said = _out(capsys, "moments", "-m", "line", "--at", "1")
    assert '"y^2": 69.7500' in said
    assert json.loads(said) == {
        "n": 4,
        "moments": {"1": 4, "x": 11, "x^2": 39, "y": 14.5, "x*y": 52.0, "y^2": 69.75},
        "version": 1,
    }
    assert main(["moments", "-m", "lines", "-o", "sums.json"]) == 0
    assert [each["n"] for each in json.loads(Path("sums.json").read_text())["groups"]] == [4, 1]


def test_run_writes_models(capsys: pytest.CaptureFixture[str]) -> None:
    Path("inbox").mkdir()
    Path("inbox/R.csv").write_text("g,x,y\nb,6,8.00\n")
    _out(capsys, "run", "inbox")
    assert json.loads(Path("out/line-3.json").read_text())["n"] == 6


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["fit"], 2, "which model? there is line, lines"),
        (["fit", "-m", "q"], 2, "no model q in the spec"),
        (["fit", "-m", "line", "--at", "9"], 3, "9"),
        (["jth", "1", "-q", "rows"], 3, "`keep: rows`"),
        (["count", "-q", "models/line"], 2, "no query models/line"),
    ],
)
def test_what_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, said: str
) -> None:
    assert main(args) == code
    assert said in capsys.readouterr().err


def test_commands_of_queries_show_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert _out(capsys, "count") == "q     5\nrows  8\n"
    assert "models/" not in _out(capsys, "status")
    assert "rows: 8 rows agree" in _out(capsys, "verify")
    assert "every count and every row holds" in _out(capsys, "check", "--read-data")


def test_explain_tells_what_is_fitted_and_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert "model line: y ~ 1 + x, over q; 6 sums are kept" in _out(capsys, "explain", "spec.yaml")
    said = json.loads(_out(capsys, "explain", ".dynq", "--json"))
    assert list(said["queries"]) == ["q", "rows"]
    assert said["models"]["line"]["guarantees"]["update"] == "O(1)"
    assert said["models"]["lines"]["terms"] == ["1", "x"]
    assert said["models"]["lines"]["per"] == ["g"]
