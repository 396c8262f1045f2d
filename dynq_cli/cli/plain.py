"""Plain command lines of commands that have to start fast, parsed without typer.

    plain_call(["count", "-q", "orders"]) = a function that counts

Importing typer and building its command tree takes longer than a whole `count`. So these commands' options stand here
once more, in the forms that typer reads in one way only. Whatever else is in a command line is left to typer: help,
errors, abbreviations, completion, other commands. A test compares this table with typer's tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from dynq_cli.cli import output

_STATE = {"--state": "state", "-s": "state"}
_QUERY = {"--query": "query", "-q": "query"}


class Form(NamedTuple):
    """A command: the parameters of its options without and with a value, and that of its other words, if it has any."""

    flags: Mapping[str, str]
    values: Mapping[str, str]
    words: str | None = None


FORMS = {
    "count": Form({"--json": "as_json"}, {**_STATE, **_QUERY, "--at": "at", "--output": "out", "-o": "out"}),
    "status": Form({"--json": "as_json"}, _STATE),
    "apply": Form(
        {
            "--atomic": "atomic",
            "--upsert": "upsert",
            "--dry-run": "dry_run",
            "--allow-replay": "allow_replay",
            "--json": "as_json",
        },
        {**_STATE, **_QUERY, "--relation": "relation", "--format": "form", "--diff": "diff", "--now": "now"},
        "paths",
    ),
}


def plain_call(line: Sequence[str]) -> Callable[[], int] | None:
    """Return what a command line asks for; None if typer has to read it."""
    ahead = 0
    while ahead < len(line) and line[ahead].startswith("-"):
        name, equals, _ = line[ahead].partition("=")
        if name != "--quiet" and name not in _STATE and name not in _QUERY:
            return None
        ahead += 1 if equals or name == "--quiet" else 2
    if ahead >= len(line) or line[ahead] not in FORMS or any(name.endswith("_COMPLETE") for name in os.environ):
        return None
    name, form = line[ahead], FORMS[line[ahead]]
    asked = _arguments(form, [*line[:ahead], *line[ahead + 1 :]])
    if asked is None:
        return None

    def call() -> int:
        output.settings.quiet |= asked.pop("quiet", False)
        getattr(import_module(f"dynq_cli.cli.commands.{name}"), name)(**asked)
        return 0

    return call


def _arguments(form: Form, line: Sequence[str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if "state" in form.values.values() and os.environ.get("DYNQ_STATE"):
        found["state"] = os.environ["DYNQ_STATE"]
    words: list[str] = []
    given: set[str] = set()
    at = 0
    while at < len(line):
        word, at = line[at], at + 1
        name, equals, value = word.partition("=")
        if word == "--quiet":
            found["quiet"] = True
        elif word in form.flags:
            found[form.flags[word]] = True
        elif name in form.values and form.values[name] not in given and (not equals or name.startswith("--")):
            if not equals:
                if at >= len(line) or (line[at].startswith("-") and line[at] != "-"):
                    return None
                value, at = line[at], at + 1
            given.add(form.values[name])
            found[form.values[name]] = value
        elif word.startswith("-") or form.words is None:
            return None
        else:
            words.append(word)
    if form.words is not None:
        found[form.words] = words or None
    return found
