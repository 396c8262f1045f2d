"""A command takes the values that typer takes and says what typer says, and does without pydantic where it can."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import pytest
import typer

from dynq_cli.cli.values import Command, Group
from tests.every_case import every_case


class Colour(StrEnum):
    red = "red"
    blue = "blue"


def outcome(ours: bool, args: list[str]) -> object:
    """What a command is called with, or what is said about its arguments."""
    called: list[dict[str, Any]] = []
    app = typer.Typer(cls=Group if ours else None, rich_markup_mode=None, pretty_exceptions_enable=False)

    @app.callback()
    def root(deep: Annotated[int | None, typer.Option(max=9)] = None) -> None:
        called.append(locals())

    @app.command(cls=Command if ours else None)
    def go(
        name: str,
        rest: Annotated[list[str] | None, typer.Argument()] = None,
        text: Annotated[str | None, typer.Option(envvar="DYNQ_TEST_TEXT")] = None,
        many: Annotated[int, typer.Option(min=0, max=100)] = 7,
        free: int | None = None,
        each: Annotated[list[int] | None, typer.Option()] = None,
        words: Annotated[list[str] | None, typer.Option()] = None,
        part: float = 0.5,
        flag: bool = False,
        colour: Colour = Colour.red,
        short: Annotated[str, typer.Option(parser=str.upper)] = "",
    ) -> None:
        called.append(dict(locals()))

    try:
        typer.main.get_command(app).main(args=args, prog_name="x", standalone_mode=False)
    except typer.TyperException as error:
        return type(error).__name__, error.format_message(), error.exit_code
    return [{name: (type(value), value) for name, value in call.items() if name != "called"} for call in called]


VALUES = ["", "0", "7", "007", "100", "101", "-1", "+5", " 5", "1_000", "5.0", "1e3", "٣", "²", "x", "red", "RED"]
VALUES += ["9" * 18, "9" * 19, "9" * 5000, "a b", "\udcff", "None", "true", "1,2"]


@every_case("option", ["--text", "--many", "--free", "--each", "--words", "--part", "--colour", "--short"])
@every_case("value", VALUES, ids=lambda value: ascii(value)[:12])
def test_a_value_means_what_typer_says_it_means(option: str, value: str) -> None:
    args = ["go", "name", f"{option}={value}"]
    assert outcome(True, args) == outcome(False, args)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["go"],
        ["go", "a"],
        ["go", "a", "b", "c d", "\udcff"],
        ["go", "a", "--each", "1", "--each", "x"],
        ["go", "a", "--each", "1", "--each", "2", "--words", "u", "--words", "", "--flag"],
        ["go", "a", "--text"],
        ["go", "a", "--nothing"],
        ["--deep", "3", "go", "a"],
        ["--deep", "10", "go", "a"],
        ["gone"],
        ["go", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_line_means_what_typer_says_it_means(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ours, said = outcome(True, args), capsys.readouterr()
    assert (ours, said) == (outcome(False, args), capsys.readouterr())


def test_a_value_of_the_environment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNQ_TEST_TEXT", "over there")
    assert outcome(True, ["go", "a"]) == outcome(False, ["go", "a"])
    assert "over there" in str(outcome(True, ["go", "a"]))
