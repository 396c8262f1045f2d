"""The entry point of the `dynq` command, and the only place that turns errors into exit codes.

Users never see a traceback. A `DynqError` has its own exit code; an OSError is shown in the system's words; any other
exception is reported as a fault of dynq in one line, with a hint how to see more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import typer
from typer.core import TyperGroup

from dynq_cli.cli import options, output
from dynq_cli.cli.values import Command, Group
from dynq_cli.errors import EXIT_INTERRUPTED, EXIT_RUNTIME, DynqError

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


def group(asked: str | None = None) -> TyperGroup:
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


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    output.prepare()
    words = options.behind(sys.argv[1:] if args is None else args)
    try:
        asked = next((word for word in words if not word.startswith("-")), None)
        code = group(asked).main(args=words, prog_name="dynq", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except DynqError as error:
        output.fail_with(error)
        return error.exit_code
    except typer.TyperException as error:
        _fail_usage(error)
        return error.exit_code
    except output.ReaderGoneError:
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except OSError as error:
        return _fail_system(error)
    except MemoryError as error:
        _show_traceback(error)
        output.fail("there is not enough memory for this; what was committed before stays", "memory")
        return EXIT_RUNTIME
    except Exception as error:
        return _fail_internal(error)


def _fail_usage(error: typer.TyperException) -> None:
    context = getattr(error, "ctx", None)
    message = error.format_message().replace("Value error, ", "")
    if message.startswith("Usage:"):
        output.fail_plain(message)
        return
    command = "dynq" if context is None else context.command_path
    end = " " if message.endswith("?") else "; "
    output.fail(f"{message.rstrip('.')}{end}see '{command} --help'", "usage")


def _fail_system(error: OSError) -> int:
    """Report an OSError, such as a full or failing disk: no fault of dynq."""
    if not error.strerror:
        return _fail_internal(error)
    _show_traceback(error)
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    output.fail(f"the system refused: {where}{error.strerror}", "system")
    return EXIT_RUNTIME


def _show_traceback(error: Exception) -> None:
    if os.environ.get("DYNQ_DEBUG"):
        import traceback

        output.fail_plain("".join(traceback.format_exception(error)).rstrip())


def _fail_internal(error: Exception) -> int:
    _show_traceback(error)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    output.fail(
        f"internal error: {what}, please report; rerun with DYNQ_DEBUG=1 for the traceback",
        "internal",
    )
    return EXIT_RUNTIME
