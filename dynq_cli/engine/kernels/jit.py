"""Kernels compiled in this process, where the built library has none: for development, and installs without a linker.

A checkout keeps their object code under `build/kernels`, so that an edited kernel is compiled once and not in each of
the processes that a test starts; `build` takes it from there. It is kept under a digest of the sources it depends on,
of the versions of Python, numba and LLVM, and of the CPU it is for. Elsewhere each process compiles what it calls.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from dynq_cli.engine.installed import version_of
from dynq_cli.engine.kernels import reached, sources
from dynq_cli.engine.kernels.library import RETURNS, V2, V3, Entry, has, is_x86
from dynq_cli.engine.kernels.native import Returned, finds_arrays
from dynq_cli.engine.kernels.signatures import Signature
from dynq_cli.errors import DynqError

TARGET = "DYNQ_KERNELS_CPU"
_log = logging.getLogger("dynq")


class Kernel(Protocol):
    """A function to compile; `part` is what numba makes of it."""

    py_func: Callable[..., Any]

    @property
    def is_listed(self) -> bool: ...

    @property
    def part(self) -> Any: ...


class KernelError(DynqError):
    """Compiled kernels are missing, or one cannot be compiled."""

    code = "kernels"


def compiled(kernel: Kernel, signature: Signature, reason: str) -> Entry:
    """A kernel compiled in this process, as far as it is not kept. KernelError without numba."""
    missing = [library for library in ("numba", "llvmlite") if find_spec(library) is None]
    if missing or not finds_arrays():
        lacking = f"{missing[0]} is not installed to compile them" if missing else "this Python cannot call them"
        raise KernelError(
            f"the compiled parts of dynq cannot be used: {reason}, and {lacking}; install dynq again where a C linker "
            "(cc or ld) is in PATH, or with `pip install 'dynq-cli[jit]'`"
        )
    symbol = signature.symbol()
    return _Linker.of_process().link(object_for(kernel, signature, reason), symbol)


def object_for(kernel: Kernel, signature: Signature, reason: str = "") -> bytes:
    """The object code of a kernel, kept or compiled now. KernelError if numba cannot compile it.

    The reason, if there is one, is logged before the first kernel is compiled.
    """
    path = kept_at(signature) if kernel.is_listed else None
    if path is not None:
        with suppress(OSError):
            os.utime(path)
            return path.read_bytes()
    if reason:
        _announce(reason)
    code = _object(kernel, signature)
    if path is not None:
        with suppress(OSError):
            reached.write_whole(path, code)
    return code


def kept_at(signature: Signature) -> Path | None:
    """Where a checkout keeps the object code of a kernel."""
    kept = reached.folder()
    return None if kept is None else kept / "objects" / f"{signature.symbol()}-{_digest(signature)}.o"


def target() -> str:
    """The CPU that code is for, as LLVM calls it: every CPU of the last ten years, unless the environment names one.

    A machine without AVX2 compiles for itself. Nothing says what macOS runs on, so code for it takes less for granted.
    """
    named = os.environ.get(TARGET)
    if named:
        return named
    if not is_x86():
        return "generic"
    return V3 if sys.platform == "linux" and has(V3) else V2


def _digest(signature: Signature) -> str:
    module = signature.kernel.rpartition(".")[0]
    return hashlib.sha256(f"{sources.digest_for(module)} {_made_by()} {target()}".encode()).hexdigest()[:16]


@functools.cache
def _made_by() -> str:
    return repr((sys.implementation.name, sys.version, version_of("numba"), version_of("llvmlite")))


def _object(kernel: Kernel, signature: Signature) -> bytes:
    part = kernel.part
    from numba.core.errors import NumbaError

    from dynq_cli.engine.kernels.entry import NotSimpleError, object_of

    try:
        return object_of(part, signature.symbol(), signature.kinds, target())
    except (NotSimpleError, NumbaError) as error:
        raise KernelError(f"kernel {signature.text()} cannot be compiled: {error}") from error


@functools.cache
def _announce(reason: str) -> None:
    _log.warning("kernels are compiled as they are called, since %s; `make install` builds them", reason)


class _Linker:
    """LLVM's linker for code in memory."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._llvm: Any = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
        # JITLink puts the parts of an object beside each other. The older linker may put them too far apart for the
        # code to reach across, next to reserved address space, and then ends the process.
        self._jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
        self._linked = 0

    @staticmethod
    @functools.cache
    def of_process() -> _Linker:
        return _Linker()

    def link(self, code: bytes, symbol: str) -> Entry:
        """The code where it can be called. RuntimeError if a symbol is missing."""
        import ctypes

        self._linked += 1
        builder = self._llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        builder.export_symbol(symbol).export_symbol(f"{symbol}{RETURNS}")
        made = builder.link(self._jit, f"kernel {self._linked}")
        returned = ctypes.string_at(made[f"{symbol}{RETURNS}"]).decode()
        return Entry(made[symbol], Returned.parse(returned), made)
