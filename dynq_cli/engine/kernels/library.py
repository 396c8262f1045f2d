"""The library of compiled kernels that is built when dynq is installed, and what says whether it may be used.

    usable() = the library; UnusableError, with the reason, if there is none for these sources, this CPU and this Python

`build` writes it beside the sources, one entry for each line of the list of signatures. Its fingerprint is that of all
kernel sources and of the list: a library that was built from others is never used. It is ordinary native code, loaded
by the system, and trusted as much as the Python files beside it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dynq_cli.engine.kernels import signatures, sources
from dynq_cli.engine.kernels.native import DATA_AT, Returned, finds_arrays

FILE = sources.FOLDER / "kernels.so"
ABOUT = "dynq_kernels"
RETURNS = "_returns"
# What Linux calls the features that x86-64-v2 and v3 have, and v3 alone.
V2, V3 = "x86-64-v2", "x86-64-v3"
_V2 = {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}
_FEATURES = {V2: _V2, V3: _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}}


class UnusableError(Exception):
    """Why there is no library that may be used."""


class Entry(NamedTuple):
    """Compiled code for one signature; `held` keeps it where it is."""

    address: int
    returned: Returned
    held: Any


class Library:
    """A loaded library."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded = ctypes.CDLL(str(path))

    def about(self) -> dict[str, Any]:
        """What it was built from and for. ValueError if it does not say."""
        found: dict[str, Any] = json.loads(self._text(ABOUT))
        return found

    def entry(self, symbol: str) -> Entry | None:
        """The entry of this name; None if there is none."""
        try:
            address = ctypes.addressof(ctypes.c_char.in_dll(self._loaded, symbol))
        except ValueError:
            return None
        return Entry(address, Returned.parse(self._text(f"{symbol}{RETURNS}")), self._loaded)

    def _text(self, symbol: str) -> str:
        return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(self._loaded, symbol))).decode()


@functools.cache
def usable() -> Library:
    """The library beside the sources. UnusableError if it may not be used."""
    return checked(FILE)


def checked(path: Path) -> Library:
    """A library, loaded. UnusableError if it was built from other sources, for another CPU or another Python."""
    if not path.exists():
        raise UnusableError("they have not been built")
    try:
        library = Library(path)
        about = library.about()
    except (OSError, ValueError) as error:
        raise UnusableError(f"{path} cannot be loaded: {error}") from error
    if about.get("fingerprint") != fingerprint():
        raise UnusableError("they were built from other sources than are there now")
    if about.get("data_at") != DATA_AT or not finds_arrays():
        raise UnusableError(f"they were built for another Python than {sys.implementation.name} {sys.version}")
    if not has(str(about.get("cpu"))):
        raise UnusableError(f"they were built for CPUs with {about.get('cpu')}, which this one has not")
    return library


def fingerprint() -> str:
    """A digest of all that the library is built from."""
    return hashlib.sha256("\n".join([sources.digest(), *signatures.read()]).encode()).hexdigest()


def is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def has(cpu: str) -> bool:
    """Whether this machine has the features of a CPU; where it does not say, it is taken to have them."""
    needed = _FEATURES.get(cpu)
    if needed is None or not is_x86():
        return True
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        # Up to the first core: what it says about the others takes time to make up.
        for line in file:
            if line.startswith("flags"):
                return needed <= set(line.split())
    return True


def checkout() -> Path | None:
    """The root of the checkout that these sources are part of; None where they are installed."""
    root = sources.FOLDER.parents[2]
    return root if (root / "hatch_build.py").is_file() else None
