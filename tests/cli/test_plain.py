"""Plain command lines mean what typer makes of them, and load neither typer nor what the command does not need."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer

from dynq_cli.cli import options, plain
from dynq_cli.cli.app import main
from dynq_cli.cli.tree import tree_of
from tests.seeds import seeds
from tests.storage.test_startup import PLAIN, loaded_by

NO_VALUE = {"quiet", "verbose", "log_format", "help"}


@pytest.mark.parametrize("name", plain.FORMS)
def test_the_table_has_typers_options(name: str) -> None:
    command, form = tree_of(name).commands[name], plain.FORMS[name]
    declared: dict[str, Any] = {word: param for param in command.params for word in param.opts if word.startswith("-")}
    for table, is_flag in ((form.flags, True), (form.values, False)):
        for word, parameter in table.items():
            assert declared[word].name == parameter
            assert bool(declared[word].is_flag) == is_flag
            assert not declared[word].multiple
    left = {param.name for param in declared.values()} - {*form.flags.values(), *form.values.values()} - NO_VALUE
    assert left == ({"replace", "on_missing_delete"} if name == "apply" else set())
    words = [param.name for param in command.params if not any(word.startswith("-") for word in param.opts)]
    assert words == ([form.words] if form.words else [])


def typed(name: str, line: list[str]) -> dict[str, Any] | None:
    """What typer hands to the command; None if it refuses the line, or shows help."""
    words = options.behind(line)
    if next((word for word in words if not word.startswith("-")), None) != name:
        return None
    tree = tree_of(name)
    try:
        with tree.make_context("dynq", words) as context:
            rest = [*context._protected_args, *context.args]
            found, command, given = tree.resolve_command(context, rest)
            assert command is not None
            with command.make_context(found, given, parent=context) as inner:
                return {param: value for param, value in inner.params.items() if param not in NO_VALUE}
    except (typer.TyperException, typer.Exit):
        return None


def defaults(name: str) -> dict[str, Any]:
    function = getattr(import_module(f"dynq_cli.cli.commands.{name}"), name)
    return {param.name: param.default for param in inspect.signature(function).parameters.values()}


def test_a_plain_line_is_read_as_typer_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    for seed in seeds(400):
        chance = Random(seed)
        name = chance.choice(list(plain.FORMS))
        form = plain.FORMS[name]
        pool = [
            *form.flags,
            *form.values,
            *form.values,
            "--quiet",
            "--verbose",
            "x.csv",
            "a b",
            "-",
            "--",
            "--jso",
            "-h",
        ]
        pool += [f"{word}=v" for word in form.values if word.startswith("--")] + ["-sdir", "--json=1", "--at="]
        line = [chance.choice(pool) for _ in range(chance.randrange(5))]
        for place in range(len(line), 0, -1):
            if line[place - 1] in form.values and chance.random() < 0.8:
                line.insert(place, chance.choice(["v", "some where", "count", "-1", "-"]))
        line.insert(chance.choice([0, 0, 0, chance.randrange(len(line) + 1)]), name)
        if chance.random() < 0.3:
            monkeypatch.setenv("DYNQ_STATE", "elsewhere")
        else:
            monkeypatch.delenv("DYNQ_STATE", raising=False)
        place = line.index(name)
        asked = plain._arguments(form, [*line[:place], *line[place + 1 :]]) if plain.plain_call(line) else None
        if asked is None:
            continue
        read += 1
        asked.pop("quiet", None)
        expected = typed(name, line)
        assert expected is not None, line
        if "paths" in expected:
            expected["paths"] = expected["paths"] or None
        if "replace" in expected:
            expected["replace"] = expected["replace"] or None
        assert {**defaults(name), **asked} == expected, line
    assert read > 40


def test_completion_is_left_to_typer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plain.plain_call(["count"]) is not None
    monkeypatch.setenv("_DYNQ_COMPLETE", "complete_bash")
    assert plain.plain_call(["count"]) is None


def test_errors_are_those_of_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = str(tmp_path / "nowhere")
    for line in (["count", "-s", state], ["count", "--verbose", "-s", state]):
        assert main(line) == 10
        assert "there is no state in" in capsys.readouterr().err
    assert main(["count", "--jso"]) == 2
    assert "--help" in capsys.readouterr().err


MAY_NOT: dict[str, set[str]] = {
    "count": {"numpy", "pyarrow", "typer", "logging", "tempfile", "shutil", "datetime", "dynq_cli.spec.model"},
    "status": {"numpy", "pyarrow", "typer", "logging", "tempfile", "dynq_cli.engine.views"},
    "apply R.1.csv": {
        *("typer", "pydantic", "argparse", "ssl", "pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset", "pandas"),
        *("duckdb", "sqlglot", "lark", "yaml", "numba", "dynq_cli.plan.search", "dynq_cli.query.sql"),
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plain")
    (made / "spec.yaml").write_text(PLAIN, "utf-8")
    (made / "R.1.csv").write_text("x,y\n1,a\n", "utf-8")
    loaded_by(made, "from dynq_cli.cli.app import main\nassert main(['init', 'spec.yaml']) == 0")
    return made


@pytest.mark.parametrize("line", MAY_NOT)
def test_a_command_loads_nothing_that_it_does_not_need(folder: Path, line: str) -> None:
    words = line.split()
    begun = f"from dynq_cli.cli.process import begin_small\nbegin_small({words})"
    code = f"{begun}\nfrom dynq_cli.cli.app import main\nassert main({words}) == 0"
    assert loaded_by(folder, code) & MAY_NOT[line] == set()
