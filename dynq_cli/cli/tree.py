"""The command tree that typer builds from the modules of `cli.commands`."""

from __future__ import annotations

from importlib import import_module

import typer
from typer.core import TyperGroup

from dynq_cli.cli import options
from dynq_cli.cli.values import Command, Group

# In the order of `dynq --help`; each is the function of its name in a module of its own, or a group of such.
COMMANDS = (
    # make a state and feed it
    "infer",
    "explain",
    "init",
    "alter",
    "apply",
    "run",
    "tick",
    "serve",
    "extract",
    # read results
    "count",
    "enum",
    "diff",
    "jth",
    "page",
    "sample",
    "rank",
    "test",
    "why",
    "dump",
    "fit",
    "moments",
    # versions and marks
    "mark",
    "marks",
    "unmark",
    # look after a state
    "status",
    "report",
    "check",
    "verify",
    "prune",
    "backup",
    "restore",
    "demo",
)
# A position may be negative: it is out of range, not an option.
_SETTINGS = {"jth": {"ignore_unknown_options": True}}


def dynq(
    version: options.Version = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    log_format: options.Log = None,
) -> None:
    """Keep the results of queries up to date over change logs."""


def tree_of(asked: str | None = None) -> TyperGroup:
    """The command tree that typer builds, global options on every command.

    If a command is asked for, the tree has no other: to build them all takes a fifth of the time of a short command.
    """
    app = typer.Typer(
        name="dynq",
        cls=Group,
        rich_markup_mode=None,  # plain help: rich would double the time `dynq --help` takes
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )
    app.callback()(dynq)
    for name in (asked,) if asked in COMMANDS else COMMANDS:
        module = import_module(f"dynq_cli.cli.commands.{name}")
        if name == "extract":
            app.add_typer(module.app)
        else:
            app.command(cls=Command, context_settings=_SETTINGS.get(name))(getattr(module, name))
    tree = typer.main.get_command(app)
    assert isinstance(tree, TyperGroup)
    options.share(tree)
    return tree
