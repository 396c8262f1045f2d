"""`dynq count`: one integer, at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dynq_cli
from dynq_cli.cli.app import main

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
HEAVY = ("numba", "numpy", "pyarrow", "duckdb", "sqlglot", "yaml", "lark", "pydantic")
pytestmark = pytest.mark.usefixtures("bag_and_set")


def test_the_count_is_one_integer_under_the_querys_semantics(capsys: pytest.CaptureFixture[str]) -> None:
    for query, rows in (("bag", 3), ("set", 2)):
        assert main(["count", "-q", query]) == 0
        assert capsys.readouterr() == (f"{rows}\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ["-s", ".dynq", "-q", "set", "count"],
        ["--query=set", "--log-format", "json", "count", "--state", ".dynq"],
        ["--state", "elsewhere", "count", "--state", ".dynq", "-q", "set"],
    ],
)
def test_state_and_query_may_stand_before_the_command(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr() == ("2\n", "")


def test_json_has_rows_distinct_rows_and_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "-q", "bag", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": 3, "distinct": 2, "version": 1}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.txt", "3\n"),
        ("c.json", '{"rows": 3, "distinct": 2, "version": 1}\n'),
        ("c.jsonl", '{"rows": 3, "distinct": 2, "version": 1}\n'),
        ("c.csv", "rows,distinct,version\n3,2,1\n"),
    ],
)
def test_the_extension_of_the_file_chooses_the_form(
    capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    assert main(["count", "-q", "bag", "-o", name]) == 0
    assert Path(name).read_text() == content
    assert capsys.readouterr().out == ""


def test_other_extensions_and_two_forms_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["-o", "c.parquet"], ["-o", "c.csv", "--json"], ["-o", "gone/c.txt"]):
        assert main(["count", "-q", "bag", *args]) == 2
        assert "c." in capsys.readouterr().err
        assert not Path(args[1]).exists()


def test_without_a_query_all_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count"]) == 0
    assert capsys.readouterr() == ("bag  3\nset  2\n", "")
    assert main(["count", "--json", "--at", "1"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both == {"bag": {"rows": 3, "distinct": 2, "version": 1}, "set": {"rows": 2, "distinct": 2, "version": 1}}
    assert main(["count", "-o", "all.csv"]) == 0
    assert Path("all.csv").read_text() == "query,rows,distinct,version\nbag,3,2,1\nset,2,2,1\n"
    assert main(["count", "-q", "gone"]) == 2


def test_the_version_in_force_may_be_named_and_one_to_come_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "-q", "bag", "--at", "1"]) == 0
    assert capsys.readouterr().out == "3\n"
    assert main(["count", "-q", "bag", "--at", "2"]) == 3
    captured = capsys.readouterr()
    assert (captured.out, "no version 2 yet" in captured.err) == ("", True)


def test_the_state_is_that_of_the_option_then_of_the_environment(dynq: Dynq, tmp_path: Path) -> None:
    assert dynq("count", "-q", "bag").stdout == "3\n"
    (tmp_path / ".dynq").rename(tmp_path / "elsewhere")
    assert dynq("count", "-q", "bag").returncode == 10
    assert dynq("count", "-q", "bag", "-s", "elsewhere").stdout == "3\n"
    assert dynq("count", "-q", "bag", DYNQ_STATE="elsewhere").stdout == "3\n"
    run = dynq("count", "-q", "bag", "-s", "nowhere", DYNQ_STATE="elsewhere")
    assert (run.returncode, run.stdout) == (10, "")
    assert "dynq init" in run.stderr


def test_counting_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom dynq_cli.cli.app import main\n"
        "assert main(['count', '-q', 'bag', '--at', '1', '--json', '-o', 'c.json']) == 0\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    root = str(Path(dynq_cli.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": root}
    )
    assert run.returncode == 0, run.stderr
