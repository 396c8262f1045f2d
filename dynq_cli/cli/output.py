"""The only module that prints.

Results go to stdout, all messages to stderr. The file of `-o` is written atomically: next to its target, synced, and
renamed.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, BinaryIO, cast

from dynq_cli.atomic import atomic_file
from dynq_cli.cli.ending import terminable
from dynq_cli.errors import DynqError, SpecError
from dynq_cli.records import record

_UNWRITABLE = "backslashreplace"  # half characters, as in names of files that are not UTF-8
_RED, _YELLOW, _RESET = "\033[31m", "\033[33m", "\033[0m"


class ReaderGoneError(Exception):
    """The reader of stdout has closed it: stop silently."""


@record()
class Settings:
    """The global options for messages."""

    quiet: bool = False
    verbose: bool = False
    json_log: bool = False


settings = Settings()
no_aside: Callable[[], AbstractContextManager[None]] = nullcontext
# Keeps a line that is drawn on the terminal away while something else is printed.
aside = no_aside


def prepare() -> None:
    """Settings as if no option were given, and UTF-8 on stdout and stderr, as in files, whatever the locale says."""
    global settings
    settings = Settings()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=_UNWRITABLE)


def result(text: str) -> None:
    """Print a result on stdout."""
    with aside(), _to_stdout():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()


@contextmanager
def _to_stdout() -> Iterator[None]:
    if sys.stdout is None:  # so Python says that the file descriptor is closed
        raise DynqError("cannot write to stdout: it is closed; write to a file with -o FILE")
    try:
        yield
    except BrokenPipeError:
        silence_stdout()
        raise ReaderGoneError from None
    except OSError as error:
        silence_stdout()
        raise DynqError(f"cannot write to stdout: {error.strerror or error}") from error


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def deliver(text: str, target: str | None) -> None:
    """Write a result to the file `target`, or to stdout if that is None or `-`."""
    if target is None or target == "-":
        result(text)
        return
    write_whole(target, (text if text.endswith("\n") else text + "\n").encode(errors=_UNWRITABLE))


def write_whole(target: str, data: bytes) -> None:
    """Write a file atomically."""
    with terminable(), atomic_file(target) as file:
        file.write(data)
    detail(f"wrote {target} ({len(data):,} bytes)")


@contextmanager
def stream(target: str | None) -> Iterator[BinaryIO]:
    """Open the target of a binary result: the file `target`, written atomically, or stdout as in `deliver`."""
    if target is None or target == "-":
        yield cast(BinaryIO, _Stdout())
        return
    with terminable(), atomic_file(target) as file:
        yield file
        size = file.tell() if file.seekable() else None
    detail(f"wrote {target}" + ("" if size is None else f" ({size:,} bytes)"))


class _Stdout(io.RawIOBase):
    """Unbuffered binary stdout, with the errors of `result`."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with _to_stdout():
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        return len(data)


def note(message: str) -> None:
    """Print a message; silent with `--quiet`."""
    if not settings.quiet:
        _log("info", message)


def detail(message: str) -> None:
    """Print a detail; only with `--verbose`."""
    if settings.verbose:
        _log("debug", message)


def warn(message: str, **fields: object) -> None:
    """Print a warning, even with `--quiet`. `fields` are for `--log-format json`."""
    _log("warning", message, color=_YELLOW, **fields)


def fail(message: str, code: str, **fields: object) -> None:
    """Print the error message of a failed command."""
    _log("error", message, color=_RED, code=code, **fields)


def fail_with(error: DynqError) -> None:
    """Print a DynqError; the problems of a spec one by one, as compilers do."""
    if not isinstance(error, SpecError):
        fail(str(error), error.code)
        return
    if settings.json_log:
        for problem in error.problems:
            place = problem.place
            fail(
                problem.message,
                error.code,
                file=place.file,
                line=place.line,
                column=place.column,
                hint=problem.hint,
            )
        return
    _write_stderr(str(error))
    number = len(error.problems)
    fail(f"the spec has {number} problem{'s' if number != 1 else ''}", error.code)


def fail_plain(text: str) -> None:
    """Print text without a level on stderr: a help page or a traceback."""
    _write_stderr(text)


def _log(level: str, message: str, color: str = "", **fields: object) -> None:
    if settings.json_log:
        with aside():
            _write_stderr(json.dumps({"level": level, "message": message, **fields}, ensure_ascii=False))
        return
    prefix = "dynq: warning:" if level == "warning" else "dynq:"
    if color and _colored():
        prefix = f"{color}{prefix}{_RESET}"
    with aside():
        _write_stderr(f"{prefix} {message}")


def _colored() -> bool:
    return (
        sys.stderr is not None
        and sys.stderr.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def _write_stderr(line: str) -> None:
    """Print a line on stderr, ignoring errors: a failure here must not change the exit code."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def flush() -> None:
    """Flush stdout and stderr, ignoring errors."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # it is closed, or was never there
            stream.flush()


def silence_stdout() -> None:
    """Keep the interpreter from complaining at exit about a stdout that nobody reads."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
