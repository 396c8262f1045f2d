"""Kernels, and where they are kept compiled, so that each version of them is compiled once per machine.

`bare`, here and in `direct`, decorates every loop of this package. At its first call it is compiled (`compiling`) to
machine code that is called, and kept, without numba (`entry`, `native`): later processes link what is kept, and import
numba only for kernels that can be called through it alone. What is kept is used only if *all* kernel sources, the
Python and numba versions and the CPU are what they were when it was compiled: numba itself looks only at the file of
the function that is called, not at the functions it calls. The directory is
`$XDG_CACHE_HOME/dynq/kernels/<fingerprint>` (`~/.cache` where the variable is not set). Where it cannot be written,
kernels are compiled in each process, with one warning.

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
_log = logging.getLogger("dynq")
_preparations: list[Callable[[], None]] = []


@overload
def bare(function: Loop, /) -> Loop: ...
@overload
def bare(**options: Any) -> Callable[[Loop], Loop]: ...
def bare(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """A kernel that allocates nothing and therefore needs no reference counts on the arrays it is given.

    Counting them, atomically and at every call between kernels, takes half the time of the small ones.
    """
    if function is None:
        return functools.partial(made, options={"_nrt": False, **options})
    return made(function, {"_nrt": False})


def before_compiling(prepare: Callable[[], None]) -> None:
    """Have something done before numba compiles a kernel: what needs numba to be imported."""
    _preparations.append(prepare)


def made(function: Loop, options: dict[str, Any], direct: bool = False) -> Loop:
    """A kernel; `direct` if its indices are never negative."""
    # Numba's own switch, for looking into kernels: each is the plain function that is written there.
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return function
    return cast("Loop", Kernel(function, options, direct))


class Kernel:
    """A function that is compiled when it is needed, and may be called by other kernels."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], direct: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = {"nogil": True, **options}
        self._direct = direct
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self._natives: dict[tuple[Any, ...], native.Native | None] = {}
        self._quick: dict[tuple[type, ...], native.Quick | None] = {}

    def __call__(self, *given: Any) -> Any:
        types = tuple(map(type, given))
        quick = self._quick.get(types)
        if quick is not None:
            returned = quick(given)
            if returned is not native.OTHER:
                return returned
        arguments = native.arguments(given)
        if arguments is not None:
            if arguments.kinds not in self._natives:
                self._natives[arguments.kinds] = self._native(arguments, given)
            compiled = self._natives[arguments.kinds]
            if compiled is not None:
                self._quick[types] = native.quick(compiled, given)
                return compiled(arguments.slots, arguments.dtypes)
        return self.dispatcher(*given)

    def _native(self, arguments: native.Arguments, given: tuple[Any, ...]) -> native.Native | None:
        """Machine code for arguments of these kinds, kept or made now; None where only numba can call it."""
        words, directory = arguments.words(), _directory()
        path = None if directory is None else directory / native.file_name(self._name, words)
        kept = None if path is None else native.load(path, words, len(arguments.slots))
        if kept is not None:
            return kept
        content = self._content(given)
        if content is None:
            return None
        if path is not None:
            with suppress(OSError):
                _write_whole(path, content)
        return native.loaded(content, words, len(arguments.slots))

    def _content(self, given: tuple[Any, ...]) -> bytes | None:
        """The function compiled for these arguments, as files have it; None if it is not simple enough."""
        _prepare()
        from dynq_cli.engine.kernels.entry import NotSimpleError, object_of

        try:
            return object_of(self._part, given)
        except NotSimpleError as reason:
            _log.debug("kernel %s needs numba: %s", self._name, reason)
        except Exception:
            # This looks into numba, which may change; without it everything works, only later.
            _log.debug("the machine code of kernel %s cannot be kept", self._name, exc_info=True)
        return None

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What numba calls from Python, where there is no machine code that can be called without it."""
        _prepare()
        import numba

        from dynq_cli.engine.kernels.compiling import compiler

        directory = _directory()
        with _numba_caches_in(numba.config, directory):
            made = numba.njit(
                cache=directory is not None,
                pipeline_class=compiler(direct=self._direct, part=False),
                **self._options,
            )
            return made(self.py_func)

    @functools.cached_property
    def _part(self) -> Any:
        """What numba makes of the function as a part of others."""
        import numba

        from dynq_cli.engine.kernels.compiling import compiler

        return numba.njit(pipeline_class=compiler(direct=self._direct, part=True), **self._options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks every global of a function for."""
        return self._part._numba_type_


def _prepare() -> None:
    """Import numba, and do what has to be done before it compiles."""
    import numba

    # Code and its constants in one piece: beside the addresses that the arena reserves they could otherwise lie
    # further apart than code can reach, and LLVM ends the process then.
    if getattr(numba.config, _ONE_PIECE, None) is None:
        setattr(numba.config, _ONE_PIECE, 1)
    while _preparations:
        _preparations.pop()()


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
        _log.info("compiling kernels once for this version, which may take a minute")
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
