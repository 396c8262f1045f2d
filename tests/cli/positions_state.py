"""A state whose results have positions, for the commands that read by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, s: "string?"}}
  S: {columns: {x: int64, d: date}}
  N: {columns: {n: int64}}
queries:
  bag: {sql: "SELECT R.x, s, d FROM R, S WHERE R.x = S.x"}
  set: {rule: "set(x, s, d) :- R(x, s), S(x, d)"}
  ordered: {sql: "SELECT R.x, s, d FROM R, S WHERE R.x = S.x", order_by: [s desc, x, d]}
  some: {rule: "some() :- R(x, s)"}
  huge: {sql: "SELECT a.n AS a, b.n AS b FROM N a, N b"}
  none: {rule: "none(x) :- R(x, _), N(x)"}
"""
COPIES = 2**40


def make_state(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state in the working directory, which is `directory` from then on."""
    monkeypatch.chdir(directory)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    days = pa.array([19000, 19001, 19002], pa.date32())
    with dynq_cli.create("spec.yaml") as view:
        view.apply(
            {
                "R": pa.table({"x": [1, 1, 1, 2, 2], "s": ["a", "a", "b", "a", None]}),
                "S": pa.table({"x": [1, 1, 2], "d": days}),
                "N": pa.table({"n": [100, 200, 300], "_count": [COPIES] * 3}),
            }
        )


def lines(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    """The rows that a command prints as JSON."""
    assert main([*args, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return [json.loads(line) for line in captured.out.splitlines()]


def expanded(capsys: pytest.CaptureFixture[str], query: str) -> list[dict[str, Any]]:
    """All rows of a result, each as often as it is there: what positions are positions in."""
    return lines(capsys, "enum", "--expand", "-q", query)


def refused(capsys: pytest.CaptureFixture[str], code: int, *args: str) -> str:
    """What a command says that fails with this code and prints nothing."""
    assert main(list(args)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "internal" not in captured.err
    return captured.err
