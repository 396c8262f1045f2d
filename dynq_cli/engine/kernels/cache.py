"""Where compiled kernels are kept, so that each version of them is compiled once per machine.

`kernel` decorates every loop of this package. A compiled kernel is reused only if *all* kernel sources,
the Python and numba versions and the CPU are what they were when it was compiled: numba itself looks
only at the file of the function that is called, not at the functions it calls. The directory is
`$XDG_CACHE_HOME/dynq/kernels/<fingerprint>` (`~/.cache` where the variable is not set). Where it cannot be
written, kernels are compiled in each process, with one warning.

Numba is pointed at the directory only while a kernel is being decorated: a program that uses dynq as
a library keeps its own numba settings, whichever of the two was imported first.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])

STALE_AFTER_DAYS = 30
_log = logging.getLogger("dynq")


@overload
def kernel(function: Loop, /) -> Loop: ...
@overload
def kernel(**options: Any) -> Callable[[Loop], Loop]: ...
def kernel(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """Compile a function with numba on its first call, or load it compiled; options are those of `numba.njit`."""
    if function is None:
        return functools.partial(_compile, options=options)
    return _compile(function, options)


@overload
def bare(function: Loop, /) -> Loop: ...
@overload
def bare(**options: Any) -> Callable[[Loop], Loop]: ...
def bare(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """A kernel that allocates nothing and therefore needs no reference counts on the arrays it is given.

    Counting them, atomically and at every call between kernels, takes half the time of the small ones.
    """
    if function is None:
        return functools.partial(_compile, options={"_nrt": False, **options})
    return _compile(function, {"_nrt": False})


def _compile(function: Loop, options: dict[str, Any]) -> Loop:
    directory = _directory()
    with _numba_caches_in(directory):
        return cast("Loop", numba.njit(cache=directory is not None, **options)(function))


@contextmanager
def _numba_caches_in(directory: Path | None) -> Iterator[None]:
    """Numba reads the setting when a function is decorated; calls and later compilations do not."""
    settings: Any = numba.config
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
    host = (platform.python_implementation(), platform.python_version(), platform.machine(), _cpu_features())
    digest.update(repr((version("numba"), version("llvmlite"), host, settings)).encode())
    return digest.hexdigest()[:24]


def _cpu_features() -> str:
    """What Linux says about the first core; elsewhere numba's own key has to do."""
    with suppress(OSError):
        first_core = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").split("\n\n", 1)[0]
        kept = [line for line in first_core.splitlines() if line.startswith(("model name", "flags", "Features"))]
        return "\n".join(kept)
    return platform.processor()


def _remove_stale(parent: Path, keep: Path) -> None:
    """Drop the kernels of versions that no run has used for a month."""
    limit = time.time() - STALE_AFTER_DAYS * 86400
    for sibling in parent.iterdir():
        if sibling != keep and sibling.is_dir() and sibling.stat().st_mtime < limit:
            shutil.rmtree(sibling, ignore_errors=True)
