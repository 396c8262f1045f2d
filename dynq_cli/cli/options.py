"""Options shared by several commands, each declared once.

The global options may come before or after the command's name: `share` adds them to every command. So may the state and
the query: `behind` moves them after the command's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from typer.core import TyperGroup

from dynq_cli import __version__
from dynq_cli.cli import completion, output
from dynq_cli.spec.output_formats import extensions


class LogFormat(StrEnum):
    text = "text"
    json = "json"


def _set_quiet(value: bool) -> None:
    output.settings.quiet |= value


def _set_verbose(value: bool) -> None:
    output.settings.verbose |= value


def _set_log_format(value: LogFormat | None) -> None:
    if value is not None:
        output.settings.json_log = value is LogFormat.json


def _show_version(value: bool) -> None:
    if value:
        output.result(f"dynq {__version__}")
        raise typer.Exit


Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="Say nothing but warnings and errors.", callback=_set_quiet, expose_value=False),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Say on stderr what is done.", callback=_set_verbose, expose_value=False),
]
Log = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        help="How messages on stderr look: text, or one JSON object per line.",
        callback=_set_log_format,
        expose_value=False,
        is_eager=True,
    ),
]
Version = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_show_version, expose_value=False, is_eager=True),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--query",
        "-q",
        metavar="NAME",
        help="Only this query; all of them where it is not given.",
        autocompletion=completion.queries,
    ),
]
OutFile = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, whole or not at all; - is stdout."),
]
RowsFile = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"Write to FILE, whole or not at all; - is stdout. The extension says the form: {' '.join(extensions())}.",
    ),
]
OneQuery = Annotated[
    str | None,
    typer.Option(
        "--query",
        "-q",
        metavar="NAME",
        help="The query; not needed where the spec has one.",
        autocompletion=completion.queries,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="The model; not needed where the spec has one.",
        autocompletion=completion.models,
    ),
]
Now = Annotated[
    str | None,
    typer.Option("--now", metavar="TIMESTAMP", help="The time of now() in queries, instead of the system's."),
]
State = Annotated[str, typer.Option("--state", "-s", metavar="DIR", envvar="DYNQ_STATE", help="The state directory.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="V",
        help="Of version V, a number or a mark; the one in force where it is not given.",
        autocompletion=completion.marks,
    ),
]
MarkName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The mark: letters, digits, _ - and ., beginning with a letter or _.",
        autocompletion=completion.marks,
        show_default=False,
    ),
]
Row = Annotated[
    str,
    typer.Option(
        "--row", metavar="JSON", help="The row: an object with all columns of the result.", show_default=False
    ),
]
Spec = Annotated[str, typer.Argument(metavar="SPEC", help="The spec, a YAML file.", show_default=False)]
SpecOrState = Annotated[
    str | None,
    typer.Argument(
        metavar="[SPEC]", help="The spec, a YAML file, or a state directory; else that of --state.", show_default=False
    ),
]

_GLOBAL = ("quiet", "verbose", "log_format")
# Options of commands that people also write before the command's name; and all that have a value there.
_BEHIND = ("--state", "-s", "--query", "-q")
_WITH_VALUE = (*_BEHIND, "--log-format")


def share(group: TyperGroup) -> None:
    """Let the global options stand after a command's name, too, and after that of a command of a command."""
    shared = [option for option in group.params if option.name in _GLOBAL]
    for command in group.commands.values():
        command.params.extend(shared)
        if isinstance(command, TyperGroup):
            share(command)


def behind(words: Sequence[str]) -> list[str]:
    """The same command line with the state and the query behind the command's name, that of an extraction in full.

    >>> behind(["-s", "here", "--quiet", "count", "--json"])
    ['--quiet', 'count', '-s', 'here', '--json']
    """
    ahead: list[str] = []
    moved: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, _, value = words[at].partition("=")
        end = at + (2 if name in _WITH_VALUE and not value else 1)
        (moved if name in _BEHIND else ahead).extend(words[at:end])
        at = end
    names = 2 if words[at : at + 1] == ["extract"] else 1
    if not moved or at >= len(words):
        return list(words)
    return [*ahead, *words[at : at + names], *moved, *words[at + names :]]
