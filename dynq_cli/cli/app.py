"""The entry point of the `dynq` command, and the only place that turns errors into exit codes.

Users never see a traceback. A `DynqError` has its own exit code; an OSError is shown in the system's words; any other
exception is reported as a fault of dynq in one line, with a hint how to see more.

Typer is loaded for what `plain` does not parse.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynq_cli.cli import output
from dynq_cli.cli.plain import plain_call
from dynq_cli.errors import EXIT_INTERRUPTED, EXIT_RUNTIME, DynqError

if TYPE_CHECKING:
    from typer import TyperException
    from typer.core import TyperGroup


def group(asked: str | None = None) -> TyperGroup:
    """The command tree; see `tree`. With a command asked for, of that alone."""
    from dynq_cli.cli.tree import tree_of

    return tree_of(asked)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    output.prepare()
    words = list(sys.argv[1:] if args is None else args)
    try:
        plain = plain_call(words)
        return _typed(words) if plain is None else plain()
    except DynqError as error:
        output.fail_with(error)
        return error.exit_code
    except output.ReaderGoneError:
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        return _fail_system(error)
    except MemoryError as error:
        _show_traceback(error)
        output.fail("there is not enough memory for this; what was committed before stays", "memory")
        return EXIT_RUNTIME
    except Exception as error:
        return _fail_internal(error)


def _typed(words: Sequence[str]) -> int:
    """Run a command line by typer."""
    import typer

    from dynq_cli.cli import options

    words = options.behind(words)
    asked = next((word for word in words if not word.startswith("-")), None)
    try:
        code = group(asked).main(args=words, prog_name="dynq", standalone_mode=False)
    except typer.TyperException as error:
        _fail_usage(error)
        return error.exit_code
    except typer.Abort:
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def _fail_usage(error: TyperException) -> None:
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
