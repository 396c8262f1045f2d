"""Whatever happens, the user gets one clear message on stderr and the exit code of the contract."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from dynq_cli import __version__
from dynq_cli.cli import output
from dynq_cli.cli.app import group, main
from dynq_cli.cli.tree import COMMANDS
from dynq_cli.errors import DynqError, Place, Problem, RejectedError, SpecError, UsageError
from tests.every_case import every_case

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
HEAVY = ("numba", "numpy", "pyarrow", "pyspark", "duckdb", "sqlglot", "yaml", "lark", "rich")


@pytest.fixture
def explain_raises(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Let the library verb behind `dynq explain` raise an error."""

    def arrange(error: BaseException) -> None:
        def explain_spec(path: str) -> None:
            raise error

        monkeypatch.setattr("dynq_cli.session.explain.explain_spec", explain_spec)

    return arrange


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no such thing"), 2, "dynq: no such thing\n"),
        (RejectedError("row 3 is bad"), 3, "dynq: row 3 is bad\n"),
        (DynqError("disk full"), 1, "dynq: disk full\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_expected_error_gives_its_own_exit_code(
    explain_raises: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    explain_raises(error)
    assert main(["explain", "x.yaml"]) == code
    assert capsys.readouterr() == ("", said)


def test_an_unexpected_error_is_one_line_that_asks_for_a_report(
    explain_raises: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DYNQ_DEBUG", raising=False)
    explain_raises(ZeroDivisionError("division by zero\nmore"))
    assert main(["explain", "x.yaml"]) == 1
    assert capsys.readouterr().err == (
        "dynq: internal error: ZeroDivisionError: division by zero, please report;"
        " rerun with DYNQ_DEBUG=1 for the traceback\n"
    )
    monkeypatch.setenv("DYNQ_DEBUG", "1")
    assert main(["explain", "x.yaml"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["explian"], "No such command 'explian'. Did you mean 'explain'? see 'dynq --help'"),
        (["init"], "Missing argument 'SPEC'; see 'dynq init --help'"),
        (["explain", "a.yaml", "--no-such"], "No such option: --no-such"),
        (["explain", "a.yaml", "--format", "gif"], "'gif' is not one of 'text', 'mermaid', 'dot'"),
        (["infer", "a.csv", "--rows", "0"], "Invalid value for '--rows'"),
        ([], "Usage: dynq"),
    ],
)
def test_a_usage_error_exits_2_with_a_message_on_stderr(
    capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_the_problems_of_a_spec_are_listed_like_a_compilers(
    explain_raises: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    problems = [
        Problem(Place("s.yaml", 9, 1), "unknown key `queri`", "write queries"),
        Problem(Place("s.yaml", 2, 5), "no columns"),
    ]
    explain_raises(SpecError(problems))
    assert main(["explain", "s.yaml"]) == 3
    assert capsys.readouterr().err == (
        "s.yaml:2:5: no columns\n"
        "s.yaml:9:1: unknown key `queri`\n  hint: write queries\n"
        "dynq: the spec has 2 problems\n"
    )
    assert main(["--log-format", "json", "explain", "s.yaml"]) == 3
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["code"], line["line"], line["column"]) for line in lines] == [
        ("error", "spec", 2, 5),
        ("error", "spec", 9, 1),
    ]
    assert lines[1]["hint"] == "write queries"


def test_global_options_may_stand_before_and_after_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    data = str(tmp_path / "t.csv")
    assert main(["infer", data]) == 0
    assert capsys.readouterr().err == "dynq: read 1 row of 1 file\n"
    for args in (["--quiet", "infer", data], ["infer", data, "--quiet"]):
        assert main(args) == 0
        assert capsys.readouterr().err == ""
    for args in (["--log-format", "json", "infer", data], ["infer", "--log-format", "json", data]):
        assert main(args) == 0
        assert json.loads(capsys.readouterr().err) == {"level": "info", "message": "read 1 row of 1 file"}
    assert main(["infer", data, "--verbose", "-o", str(tmp_path / "out.yaml")]) == 0
    assert "wrote" in capsys.readouterr().err


def test_version_is_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"dynq {__version__}\n", "")


@pytest.mark.parametrize("args", [["--help"], ["explain", "--help"], ["infer", "--help"], ["init", "--help"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys\nfrom dynq_cli.cli.app import main\n"
        f"assert main({args!r}) == 0\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Usage: dynq")


def test_the_command_runs_as_a_module(dynq: Dynq) -> None:
    run = dynq("--version")
    assert (run.returncode, run.stdout) == (0, f"dynq {__version__}\n")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, root: Path) -> None:
    header = ",".join(f"column_number_{i}" for i in range(8_000))
    (tmp_path / "t.csv").write_text(f"{header}\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "dynq_cli", "--quiet", "infer", str(tmp_path / "t.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=root,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.read(10)
    run.stdout.close()
    assert run.stderr.read() == b""
    assert run.wait(timeout=60) == 0


def test_a_stdout_that_takes_no_more_is_a_runtime_error(tmp_path: Path, root: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "dynq_cli", "--quiet", "infer", str(tmp_path / "t.csv")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            check=False,
        )
    assert (run.returncode, run.stderr) == (1, "dynq: cannot write to stdout: No space left on device\n")


def test_a_closed_stdout_is_a_runtime_error(tmp_path: Path, root: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    run = _in_shell('"$0" -m dynq_cli --quiet infer "$1" >&-', str(tmp_path / "t.csv"), root)
    said = "dynq: cannot write to stdout: it is closed; write to a file with -o FILE\n"
    assert (run.returncode, run.stderr) == (1, said)


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(tmp_path: Path, root: Path, stderr: str) -> None:
    run = _in_shell(f'"$0" -m dynq_cli infer "$1" {stderr}', str(tmp_path / "missing.csv"), root)
    assert (run.returncode, run.stdout) == (2, "")


def _in_shell(line: str, path: str, root: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", line, sys.executable, path]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)


def test_output_is_utf8_whatever_the_locale_says(dynq: Dynq, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        'version: 1\nrelations: {R: {columns: {x: int64}}}\nqueries: {q: {rule: "q(x) :- R(x)"}}\n'
    )
    run = dynq("explain", "spec.yaml", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert run.returncode == 0, run.stderr
    assert "╘══ R(x) ●" in run.stdout


def test_colours_need_a_terminal_and_yield_to_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def __init__(self) -> None:
            self.text = ""

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            pass

    monkeypatch.setattr(output, "settings", output.Settings())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for no_color, colored in ((None, True), ("1", False)):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        if no_color:
            monkeypatch.setenv("NO_COLOR", no_color)
        output.warn("look")
        assert ("\033[" in terminal.text) is colored
        assert "look" in terminal.text


def test_an_option_without_its_value_is_a_message_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "-o"]) == 2
    assert capsys.readouterr().err == "dynq: Option '-o' requires an argument; see 'dynq --help'\n"
    assert main(["--log-format", "json", "enum", "-o"]) == 2
    assert json.loads(capsys.readouterr().err)["code"] == "usage"


@every_case("name", COMMANDS)
def test_a_command_by_itself_is_the_one_of_the_whole_tree(name: str) -> None:
    alone, whole = group(name), group()
    assert list(alone.commands) == [name] and set(whole.commands) == set(COMMANDS)
    with typer.Context(whole, info_name="dynq") as context:
        assert alone.commands[name].get_help(context) == whole.commands[name].get_help(context)


def test_the_list_of_commands_says_the_first_sentence_of_each_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2]
    assert "..." not in listed
    assert " ".join(listed.split()).count("Apply change logs in the order given: each file is a version") == 1
