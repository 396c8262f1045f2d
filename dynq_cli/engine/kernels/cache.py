"""Kernels: loops that are compiled when dynq is built, and called without numba.

`kernel` decorates every loop of this package. At its first call with arguments of new kinds its
entry is looked up in the built library (`library`). Where there is none, numba compiles it in this process (`jit`):
while kernels are being changed, and where dynq was installed without a linker and with numba.

Kernels run without Python's lock, so that a thread may write one block of a result while the next one is filled.

For development there are two switches of numba: with NUMBA_DISABLE_JIT=1 kernels are the plain functions that are
written here, and with NUMBA_BOUNDSCHECK=1 numba compiles all of them in each process, with checks of every index.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from dynq_cli.engine.kernels import native, reached
from dynq_cli.engine.kernels.library import Entry, UnusableError, usable
from dynq_cli.engine.kernels.signatures import PACKAGE, Signature, relative

_ONE_PIECE = "USE_LLVMLITE_MEMORY_MANAGER"
Loop = TypeVar("Loop", bound=Callable[..., Any])

_preparations: list[Callable[[], None]] = []


@overload
def kernel(function: Loop, /) -> Loop: ...
@overload
def kernel(**options: Any) -> Callable[[Loop], Loop]: ...
def kernel(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """Make a loop a kernel: it allocates nothing, and its indices are never negative.

    So it needs no reference counts on the arrays it is given: counting them, atomically and at every call between
    kernels, takes half the time of the small ones. Nor need it look at the sign of every index (`compiling`).
    Uncompiled, and with NUMBA_BOUNDSCHECK=1, kernels are like any other function.
    """
    if function is None:
        return functools.partial(made, options={"_nrt": False, **options})
    return made(function, {"_nrt": False})


def before_compiling(prepare: Callable[[], None]) -> None:
    """Have something done before numba compiles a kernel: what needs numba to be imported."""
    _preparations.append(prepare)


def made(function: Loop, options: dict[str, Any]) -> Loop:
    """A kernel with options of numba's."""
    if _is_on("NUMBA_DISABLE_JIT"):
        return function
    kind = CheckedKernel if _is_on("NUMBA_BOUNDSCHECK") else Kernel
    return cast("Loop", kind(function, options))


def _is_on(switch: str) -> bool:
    return os.environ.get(switch, "0") not in ("", "0")


class Kernel:
    """A function that is compiled, and may be called by other kernels."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.name = f"{relative(function.__module__)}.{function.__name__}"
        self._options = {"nogil": True, **options}
        self._natives: dict[tuple[Any, ...], native.Native] = {}
        self._quick: dict[tuple[type, ...], native.Quick] = {}

    def __call__(self, *given: Any) -> Any:
        types = tuple(map(type, given))
        quick = self._quick.get(types)
        if quick is not None:
            returned = quick(given)
            if returned is not native.OTHER:
                return returned
        arguments = native.arguments(given)
        if arguments is None:
            words = ", ".join(kind.__name__ for kind in types)
            raise TypeError(f"kernel {self.name} takes int64, bool, arrays and named tuples of them, not ({words})")
        compiled = self._natives.get(arguments.kinds)
        if compiled is None:
            compiled = self._natives[arguments.kinds] = self._native(arguments)
        self._quick[types] = native.Quick(compiled, given)
        return compiled(arguments.slots, arguments.dtypes)

    def _native(self, arguments: native.Arguments) -> native.Native:
        """Machine code for arguments of these kinds: built, or compiled now. KernelError if there is neither."""
        signature = Signature(self.name, arguments.kinds)
        entry = self._entry(signature)
        return native.Native(entry.address, len(arguments.slots), entry.returned, entry.held)

    def _entry(self, signature: Signature) -> Entry:
        reason = f"the list of kernels lacks {signature.kernel} for these arguments"
        try:
            entry = usable().entry(signature.symbol())
        except UnusableError as error:
            entry, reason = None, str(error)
        if self.is_listed and (entry is None or reached.is_recording()):
            reached.note(signature)
        if entry is not None:
            return entry
        from dynq_cli.engine.kernels.jit import compiled

        return compiled(self, signature, reason)

    @property
    def is_listed(self) -> bool:
        """Whether the kernel is one of this package, all of which are built."""
        return self.py_func.__module__.startswith(f"{PACKAGE}.")

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What numba calls from Python, where indices are checked: such kernels can raise, which entries cannot."""
        _prepare()
        import numba

        from dynq_cli.engine.kernels.compiling import compiler

        return numba.njit(pipeline_class=compiler(part=False), **self._options)(self.py_func)

    @functools.cached_property
    def part(self) -> Any:
        """What numba makes of the function as a part of others."""
        _prepare()
        import numba

        from dynq_cli.engine.kernels.compiling import compiler

        return numba.njit(pipeline_class=compiler(part=True), **self._options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks every global of a function for."""
        return self.part._numba_type_


class CheckedKernel(Kernel):
    """A kernel that numba compiles, with checks of every index, and calls."""

    def __call__(self, *given: Any) -> Any:
        return self.dispatcher(*given)


def _prepare() -> None:
    """Import numba, and do what has to be done before it compiles."""
    import numba

    # Code and its constants in one piece: beside the addresses that the arena reserves they could otherwise lie
    # further apart than code can reach, and LLVM ends the process then.
    if getattr(numba.config, _ONE_PIECE, None) is None:
        setattr(numba.config, _ONE_PIECE, 1)
    while _preparations:
        _preparations.pop()()
