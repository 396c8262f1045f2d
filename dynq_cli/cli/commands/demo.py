"""`dynq demo`: the whole path on sample data, narrated."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from dynq_cli.cli import demo_script, output
from dynq_cli.errors import EXIT_INTERRUPTED, DynqError, UsageError

_PACKAGE = Path(__file__).parents[2]
_WIDTH = 100


def demo(
    directory: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR",
            help="Work in DIR and leave everything there; without it, nothing is left.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Walk through the sample: make a state, apply three days of changes, read, test, explain and verify the results.

    Every command is shown as you would type it, with what it really prints.
    """
    source = _sample()
    with _place(directory) as place:
        _copy(source, place)
        for step in demo_script.STEPS:
            output.result(f"\n{step.said}")
            if step.shows_spec:
                output.result("\n" + _queries(place / demo_script.SPEC))
            for command in step.commands:
                _run(command, place)
        output.result(f"\n{demo_script.END}")
        output.result(f"\n{_left(directory)}")


def _left(directory: str | None) -> str:
    if directory is None:
        return "Nothing is left of this; `dynq demo DIR` leaves it all in DIR, to try the commands yourself."
    return f"Everything is in {directory}: go there and try the commands yourself."


def _sample() -> Path:
    """Where `specs` and `sample_data` are: in the installed package, else beside it."""
    for place in (_PACKAGE / "demo", _PACKAGE.parent):
        if (place / demo_script.SPEC).is_file():
            return place
    raise DynqError("the sample is not installed\n  hint: run `dynq demo` from a checkout of the source")


@contextlib.contextmanager
def _place(directory: str | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="dynq-demo-") as made:
            yield Path(made)
        return
    place = Path(directory)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(f"{directory} is there and not empty; nothing was done\n  hint: name another directory")
    place.mkdir(parents=True, exist_ok=True)
    yield place


def _copy(source: Path, place: Path) -> None:
    (place / demo_script.SPEC).parent.mkdir()
    for spec in demo_script.SPEC, demo_script.ALTERED, demo_script.RULES:
        shutil.copyfile(source / spec, place / spec)
    for name in demo_script.DATA:
        shutil.copytree(source / name, place / name, copy_function=shutil.copyfile)


def _queries(spec: Path) -> str:
    _, key, queries = spec.read_text("utf-8").partition("queries:\n")
    return "\n".join(f"    {line}" for line in (key + queries).splitlines())


def _run(command: tuple[str, ...], place: Path) -> None:
    """One command in the demo's place, as in a shell that has no settings of dynq's own."""
    from dynq_cli.cli.app import main

    output.result("\n" + _typed(command))
    settings, elsewhere = output.settings, os.environ.pop("DYNQ_STATE", None)
    try:
        with contextlib.chdir(place):
            code = main(command)
    finally:
        output.settings = settings
        if elsewhere is not None:
            os.environ["DYNQ_STATE"] = elsewhere
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise DynqError(f"`dynq {command[0]}` of the demo ended with exit code {code}; please report this")


def _typed(command: tuple[str, ...]) -> str:
    """The command line after a prompt, its long ones broken before options."""
    lines = ["$ dynq"]
    for word in map(shlex.quote, command):
        if len(lines[-1]) + len(word) > _WIDTH or (word.startswith("--load") and len(command) > 4):
            lines[-1] += " \\"
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)
