"""The entry of the `dynq` command, and the only place that turns errors into exit codes.

No traceback reaches a user: what dynq expects is a `DynqError` with its own code; what the system refuses is said in
its words; anything else is reported as a fault of dynq in one line, with how to see more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer
from typer.core import TyperGroup

from dynq_cli.cli import options, output
from dynq_cli.cli.commands.apply import apply
from dynq_cli.cli.commands.check import check
from dynq_cli.cli.commands.count import count
from dynq_cli.cli.commands.demo import demo
from dynq_cli.cli.commands.diff import diff
from dynq_cli.cli.commands.enum import enum
from dynq_cli.cli.commands.explain import explain
from dynq_cli.cli.commands.extract import app as extract
from dynq_cli.cli.commands.infer import infer
from dynq_cli.cli.commands.init import init
from dynq_cli.cli.commands.jth import jth
from dynq_cli.cli.commands.mark import mark
from dynq_cli.cli.commands.marks import marks
from dynq_cli.cli.commands.page import page
from dynq_cli.cli.commands.prune import prune
from dynq_cli.cli.commands.rank import rank
from dynq_cli.cli.commands.run import run
from dynq_cli.cli.commands.sample import sample
from dynq_cli.cli.commands.status import status
from dynq_cli.cli.commands.test import test
from dynq_cli.cli.commands.unmark import unmark
from dynq_cli.cli.commands.verify import verify
from dynq_cli.cli.values import Command, Group
from dynq_cli.errors import EXIT_INTERRUPTED, EXIT_RUNTIME, DynqError

app = typer.Typer(
    name="dynq",
    cls=Group,
    rich_markup_mode=None,  # plain help: rich would double the time `dynq --help` takes
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)


@app.callback()
def dynq(
    version: options.Version = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    log_format: options.Log = None,
) -> None:
    """Keep the results of queries up to date over change logs."""


for _command in (
    apply,
    check,
    count,
    demo,
    diff,
    enum,
    explain,
    infer,
    init,
    mark,
    marks,
    page,
    prune,
    rank,
    run,
    sample,
    status,
    test,
    unmark,
    verify,
):
    app.command(cls=Command)(_command)
# A position may be negative: it is out of range, not an option.
app.command(cls=Command, context_settings={"ignore_unknown_options": True})(jth)
app.add_typer(extract)


def group() -> TyperGroup:
    """The command tree that typer builds from the app, global options on every command."""
    tree = typer.main.get_command(app)
    assert isinstance(tree, TyperGroup)
    options.share(tree)
    return tree


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    output.prepare()
    try:
        code = group().main(args=args, prog_name="dynq", standalone_mode=False)
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
    """What the system refused, a full disk or a failing one: no fault of dynq."""
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
