"""`dynq test`: whether a row is in the result, the row written as a change log would have it."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, s: "string?"}}
  T: {columns: {d: date, t: time, ts: timestamp, m: "decimal(9,2)", f: float64, b: binary, ok: bool}}
queries:
  bag: {sql: "SELECT x, s FROM R"}
  set: {rule: "set(x, s) :- R(x, s)"}
  kinds: {rule: "kinds(d, t, ts, m, f, b, ok) :- T(d, t, ts, m, f, b, ok)"}
"""
KINDS = {
    "d": dt.date(2024, 2, 29),
    "t": dt.time(12, 30),
    "ts": dt.datetime(2024, 2, 29, 12, 30, 0, 5),
    "m": Decimal("12.50"),
    "f": float("nan"),
    "b": b"\x00\xff",
    "ok": True,
}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    decimals = pa.array([KINDS["m"]], pa.decimal128(9, 2))
    kinds = pa.table({name: decimals if name == "m" else pa.array([value]) for name, value in KINDS.items()})
    with dynq_cli.create("spec.yaml") as view:
        view.apply({"R": pa.table({"x": [1, 1, 2**62], "s": ["a", "a", None]}), "T": kinds})


def _test(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["test", *args]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_true_and_false_or_the_number_of_copies(capsys: pytest.CaptureFixture[str]) -> None:
    there, not_there = '{"x": 1, "s": "a"}', '{"x": 1, "s": "b"}'
    assert _test(capsys, "-q", "bag", "--row", there) == "true\n"
    assert _test(capsys, "-q", "bag", "--row", there, "--count") == "2\n"
    assert _test(capsys, "-q", "set", "--row", there, "--count") == "1\n"
    assert _test(capsys, "-q", "bag", "--row", not_there) == "false\n"
    assert _test(capsys, "-q", "bag", "--row", not_there, "--count") == "0\n"


@pytest.mark.parametrize("x", ["4611686018427387904", '"4611686018427387904"'])
def test_large_integers_are_numbers_or_strings_and_exact(capsys: pytest.CaptureFixture[str], x: str) -> None:
    assert _test(capsys, "-q", "bag", "--row", f'{{"s": null, "x": {x}}}') == "true\n"
    assert _test(capsys, "-q", "bag", "--row", '{"s": null, "x": 4611686018427387905}') == "false\n"


def test_every_row_that_enum_prints_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "-q", "kinds", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "d": "2024-02-29",
        "t": "12:30:00",
        "ts": "2024-02-29T12:30:00.000005",
        "m": "12.50",
        "f": "NaN",
        "b": base64.b64encode(b"\x00\xff").decode(),
        "ok": True,
    }
    assert _test(capsys, "-q", "kinds", "--row", line) == "true\n"
    other = json.loads(line) | {"m": 12.25}
    assert _test(capsys, "-q", "kinds", "--row", json.dumps(other)) == "false\n"


@pytest.mark.parametrize(
    ("row", "code", "said"),
    [
        ("{", 2, "no JSON"),
        ("", 2, "no JSON"),
        ("[1]", 2, "a JSON object"),
        ('{"x": 1, "x": 2, "s": "a"}', 2, "twice"),
        ('{"x": NaN, "s": "a"}', 2, '"NaN"'),
        ("[" * 100_000, 2, "no JSON"),
        ('{"x": 1}', 3, "no column `s`"),
        ('{"x": 1, "s": "a", "z": 1}', 3, "`z`"),
        ('{"x": 1, "s": "a", "_count": 2}', 3, "`_count`"),
        ('{"x": "one", "s": "a"}', 3, "`x`"),
        ('{"x": 1.5, "s": "a"}', 3, "`x`"),
        ('{"x": 9223372036854775808, "s": "a"}', 3, "`x`"),
        ('{"x": 1, "s": 5}', 3, "`s`"),
        ('{"x": 1, "s": {"a": 1}}', 3, "`s`"),
        ('{"x": 1, "s": "\\ud800"}', 3, "`s`"),
    ],
)
def test_a_row_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], row: str, code: int, said: str) -> None:
    assert main(["test", "-q", "bag", "--row", row]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "internal" not in captured.err


def test_the_row_and_the_query_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "-q", "bag"]) == 2
    assert "--row" in capsys.readouterr().err
    assert main(["test", "--row", "{}"]) == 2
    assert "bag, set, kinds" in capsys.readouterr().err
    assert main(["test", "--row", "{}", "-s", "nowhere"]) == 10
