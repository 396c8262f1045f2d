"""Kernels, and where they are kept compiled, so that each version of them is compiled once per machine.

`kernel` decorates every loop of this package. It is compiled by numba at its first call, and its machine code is kept
by itself (`native`): later processes call that, and numba is imported only where there is none for the arguments
of a call. What is kept is used only if *all* kernel sources, the Python and numba versions and the CPU are what they
were when it was compiled: numba itself looks only at the file of the function that is called, not at the functions it
calls. The directory is `$XDG_CACHE_HOME/dynq/kernels/<fingerprint>` (`~/.cache` where the variable is not set). Where
it cannot be written, kernels are compiled in each process, with one warning.

Kernels run without Python's lock, so that a thread may write one block of a result while the next one is filled.

Numba is pointed at the directory only while a kernel is being made known to it: a program that uses dynq as
a library keeps its own numba settings, whichever of the two was imported first.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast, overload

from dynq_cli.engine.installed import version_of
from dynq_cli.engine.kernels import native

_ONE_PIECE = "USE_LLVMLITE_MEMORY_MANAGER"
Loop = TypeVar("Loop", bound=Callable[..., Any])

STALE_AFTER_DAYS = 30
# A call through numba takes ten microseconds less, its import half a second: from so many calls on it pays.
PATIENCE = 30_000
_log = logging.getLogger("dynq")
_preparations: list[Callable[[], None]] = []


@overload
def kernel(function: Loop, /) -> Loop: ...
@overload
def kernel(**options: Any) -> Callable[[Loop], Loop]: ...
def kernel(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """Compile a function with numba on its first call, or load it compiled; options are those of `numba.njit`."""
    if function is None:
        return functools.partial(_made, options=options)
    return _made(function, options)


@overload
def bare(function: Loop, /) -> Loop: ...
@overload
def bare(**options: Any) -> Callable[[Loop], Loop]: ...
def bare(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """A kernel that allocates nothing and therefore needs no reference counts on the arrays it is given.

    Counting them, atomically and at every call between kernels, takes half the time of the small ones.
    """
    if function is None:
        return functools.partial(_made, options={"_nrt": False, **options})
    return _made(function, {"_nrt": False})


def before_compiling(prepare: Callable[[], None]) -> None:
    """Have something done before numba compiles a kernel: what needs numba to be imported."""
    _preparations.append(prepare)


def _made(function: Loop, options: dict[str, Any]) -> Loop:
    # Numba's own switch, for looking into kernels: each is the plain function that is written there.
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return function
    return cast("Loop", Kernel(function, options))


class Kernel:
    """A function that is compiled when it is needed. Other kernels may call it: numba takes it for its dispatcher."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self._natives: dict[tuple[Any, ...], native.Native | None] = {}
        self._dispatcher: Any = None
        self._patience = PATIENCE
        self._kept = 0

    def __call__(self, *given: Any) -> Any:
        if self._dispatcher is None:
            arguments = native.arguments(given)
            compiled = None if arguments is None else self._native(arguments)
            if arguments is not None and compiled is not None:
                return compiled(arguments.slots)
        returned = self.dispatcher(*given)
        if len(self.dispatcher.overloads) != self._kept:
            self._keep_natives()
        return returned

    def _native(self, arguments: native.Arguments) -> native.Native | None:
        if arguments.kinds not in self._natives:
            directory, words = _directory(), arguments.words()
            if directory is None:
                return None
            path = directory / native.file_name(self._name, words)
            self._natives[arguments.kinds] = native.load(path, words, len(arguments.slots))
        self._patience -= 1
        return self._natives[arguments.kinds] if self._patience >= 0 else None

    @property
    def dispatcher(self) -> Any:
        """What numba makes of the function."""
        if self._dispatcher is None:
            import numba

            # Code and its constants in one piece: beside the addresses that the arena reserves they could otherwise
            # lie further apart than code can reach, and LLVM ends the process then.
            if getattr(numba.config, _ONE_PIECE, None) is None:
                setattr(numba.config, _ONE_PIECE, 1)
            while _preparations:
                _preparations.pop()()
            directory = _directory()
            with _numba_caches_in(numba.config, directory):
                compiled = numba.njit(cache=directory is not None, nogil=True, **self.targetoptions)
                self._dispatcher = compiled(self.py_func)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def _keep_natives(self) -> None:
        """Keep the machine code of what numba has compiled or loaded since the last time."""
        self._kept = len(self.dispatcher.overloads)
        directory = _directory()
        if directory is None:
            return
        from dynq_cli.engine.kernels.entry import NotSimpleError, object_of, words_of

        for compiled in self.dispatcher.overloads.values():
            try:
                path = directory / native.file_name(self._name, words_of(tuple(compiled.signature.args)))
                if not path.exists():
                    _write_whole(path, object_of(compiled))
            except (NotSimpleError, OSError) as reason:
                _log.debug("kernel %s will need numba again: %s", self._name, reason)
            except Exception:
                # This looks into numba, which may change; without it everything works, only later.
                _log.debug("the machine code of kernel %s cannot be kept", self._name, exc_info=True)


def _write_whole(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(content)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


@contextmanager
def _numba_caches_in(settings: Any, directory: Path | None) -> Iterator[None]:
    """Numba reads the setting when a function is made known to it; calls and later compilations do not."""
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(directory or "")
    try:
        yield
    finally:
        settings.CACHE_DIR = before


@functools.cache
def _directory() -> Path | None:
    """The writable directory of this version's kernels, made if need be; None where there is none."""
    parent = _cache_home() / "dynq" / "kernels"
    directory = parent / _fingerprint()
    try:
        is_new = not directory.is_dir()
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        _log.warning(
            "compiled kernels cannot be kept in %s (%s), so every run compiles them again; "
            "set XDG_CACHE_HOME to a writable directory",
            directory,
            error.strerror,
        )
        return None
    if is_new:
        _log.info("compiling kernels once for this version, which may take two minutes")
    with suppress(OSError):
        os.utime(directory)
        _remove_stale(parent, keep=directory)
    return directory


def _cache_home() -> Path:
    """The user's cache directory by the XDG rules: a relative `$XDG_CACHE_HOME` does not count."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path(os.path.expanduser("~")) / ".cache"


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{source.name}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    # Settings such as NUMBA_BOUNDSCHECK change the compiled code and are not part of numba's own key.
    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    host = (sys.implementation.name, sys.version, platform.machine(), _cpu_features())
    digest.update(repr((version_of("numba"), version_of("llvmlite"), host, settings)).encode())
    return digest.hexdigest()[:24]


def _cpu_features() -> str:
    """What Linux says about the first core; elsewhere numba's own key has to do."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        # Line by line: what it says about the other cores takes time to make up.
        kept = []
        for line in file:
            if not line.strip():
                break
            if line.startswith(("model name", "flags", "Features")):
                kept.append(line)
        return "".join(kept)
    return platform.processor()


def _remove_stale(parent: Path, keep: Path) -> None:
    """Drop the kernels of versions that no run has used for a month."""
    limit = time.time() - STALE_AFTER_DAYS * 86400
    for sibling in parent.iterdir():
        if sibling != keep and sibling.is_dir() and sibling.stat().st_mtime < limit:
            shutil.rmtree(sibling, ignore_errors=True)
