"""The only module that prints.

Results go to stdout, everything else to stderr, so that a pipe never carries a message. A file
named by `-o` appears whole or not at all: it is written beside its place, synced and renamed.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dynq_cli.errors import DynqError, SpecError, UsageError

_UNWRITABLE = "backslashreplace"  # half characters, as in names of files that are not UTF-8
_RED, _YELLOW, _RESET = "\033[31m", "\033[33m", "\033[0m"


class ReaderGoneError(Exception):
    """The program that read our stdout has closed it: stop, without a word."""


@dataclass
class Settings:
    """What the global options say about messages."""

    quiet: bool = False
    verbose: bool = False
    json_log: bool = False


settings = Settings()


def prepare() -> None:
    """Settings as if no option were given, and UTF-8 on stdout and stderr, as in files, whatever the locale says."""
    global settings
    settings = Settings()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=_UNWRITABLE)


def result(text: str) -> None:
    """Print a result on stdout."""
    if sys.stdout is None:  # so Python says that the file descriptor is closed
        raise DynqError("cannot write to stdout: it is closed; write to a file with -o FILE")
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        raise ReaderGoneError from None
    except OSError as error:
        silence_stdout()
        raise DynqError(f"cannot write to stdout: {error.strerror or error}") from error


def deliver(text: str, target: str | None) -> None:
    """A result to the file `target`, or to stdout where there is none or it is `-`."""
    if target is None or target == "-":
        result(text)
        return
    write_whole(target, (text if text.endswith("\n") else text + "\n").encode(errors=_UNWRITABLE))


def write_whole(target: str, data: bytes) -> None:
    """Put `data` under the name `target`, or leave what was there as it was."""
    path = Path(target).resolve()
    try:
        _write_whole(path, data)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"cannot write {target}: there is no directory {path.parent}") from None
    except IsADirectoryError:
        raise UsageError(f"cannot write {target}: it is a directory") from None
    except OSError as error:
        raise DynqError(f"cannot write {target}: {error.strerror or error}") from error
    detail(f"wrote {target} ({len(data):,} bytes)")


def _write_whole(path: Path, data: bytes) -> None:
    if path.is_dir():
        raise IsADirectoryError
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a device or a pipe cannot be replaced by rename
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def note(message: str) -> None:
    """What a user likes to know; silent under `--quiet`."""
    if not settings.quiet:
        _log("info", message)


def detail(message: str) -> None:
    """What helps to understand a run; only under `--verbose`."""
    if settings.verbose:
        _log("debug", message)


def warn(message: str) -> None:
    """What may be wrong; said even under `--quiet`."""
    _log("warning", message, color=_YELLOW)


def fail(message: str, code: str, **fields: object) -> None:
    """The last words of a command that failed."""
    _log("error", message, color=_RED, code=code, **fields)


def fail_with(error: DynqError) -> None:
    """An error as its layer worded it; a spec's problems one by one, as compilers print them."""
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
    """Text that speaks for itself on stderr: a help page, a traceback."""
    _write_stderr(text)


def _log(level: str, message: str, color: str = "", **fields: object) -> None:
    if settings.json_log:
        _write_stderr(json.dumps({"level": level, "message": message, **fields}, ensure_ascii=False))
        return
    prefix = "dynq: warning:" if level == "warning" else "dynq:"
    if color and _colored():
        prefix = f"{color}{prefix}{_RESET}"
    _write_stderr(f"{prefix} {message}")


def _colored() -> bool:
    return (
        sys.stderr is not None
        and sys.stderr.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def _write_stderr(line: str) -> None:
    """Print a message, where it can be printed: the exit code says the same, so it must not be lost as well."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def silence_stdout() -> None:
    """Keep the interpreter from complaining at exit about a stdout that nobody reads."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
