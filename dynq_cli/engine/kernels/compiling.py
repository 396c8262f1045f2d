"""How numba compiles kernels: each by itself and its parts only once, with indices as they are.

Numba optimises every function before it may be called by another, together with all that it calls, and makes machine
code of it; the caller then does so again with all of them. The kernels stand ten deep, so the small ones would be
optimised hundreds of times. Here a kernel that another one calls is only translated, and the one that is called from
Python is optimised as a whole, which takes less than half of the time.

Numba also lets a negative index count from the end, as Python does, and for that compares every index with 0 and
adds the length of the array before it is used. The places that kernels look at are computed from what they have just
read, so this stands in the way of every access: where it is left out, an update takes about 0.8 of its time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.np import arrayobj

_base: Any = Compiler
_functions: Any = numba._dynfunc  # type: ignore[attr-defined]
_library: Any = JITCodeLibrary
_arrays: Any = arrayobj


@functools.cache
def compiler(*, part: bool) -> Any:
    """Numba's compiler for kernels, or for those that kernels call (`part`)."""

    class KernelCompiler(_base):  # type: ignore[misc]
        def compile_extra(self, function: Any) -> Any:
            with _indices_as_they_are():
                state = self.state
                state.library = (_Part if part else _Whole)(state.targetctx.codegen(), function.__qualname__)
                if not part:
                    return super().compile_extra(function)
                state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
                return _callable_by_kernels(state.targetctx, super().compile_extra(function))

    return KernelCompiler


class _Part(_library):  # type: ignore[misc]
    """The code of a kernel that others call, as it was translated."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True


class _Whole(_library):  # type: ignore[misc]
    """The code of a kernel that Python calls through numba, with all its parts."""

    def finalize(self) -> None:
        parts, self._linking_libraries = _reached(self)
        for part in parts:
            self._final_module.link_in(part._final_module, preserve=True)
        _check_parts(self._final_module, parts)
        super().finalize()


def _reached(library: Any) -> tuple[list[Any], list[Any]]:
    """The parts that a library calls, and that those call; and other libraries, which hold all that they call."""
    parts: list[Any] = []
    others: list[Any] = []
    waiting = list(library._linking_libraries)
    while waiting:
        each = waiting.pop()
        found = parts if isinstance(each, _Part) else others
        if each not in found:
            found.append(each)
            waiting += each._linking_libraries if found is parts else ()
    return parts, others


def linked(part: Any) -> Any:
    """A part and all that it calls, as one module.

    LLVM drops what nothing refers to from what numba has made ready for linking, so the others come last; a part is
    linked as it was translated, once, and stays.
    """
    module = part._final_module.clone()
    parts, others = _reached(part)
    for each in parts:
        module.link_in(each._final_module, preserve=True)
    for each in others:
        module.link_in(each._get_module_for_linking(), preserve=True)
    _check_parts(module, parts)
    return module


def _check_parts(module: Any, parts: list[Any]) -> None:
    """No part may be missing: a call of it would end the process."""
    for part in parts:
        for function in part._final_module.functions:
            if not function.is_declaration and module.get_function(function.name).is_declaration:
                raise RuntimeError(f"{function.name} was not linked")


def _callable_by_kernels(context: Any, compiled: Any) -> Any:
    """What numba needs to know a function by; Python must not call it, for there is no machine code."""
    described = compiled.fndesc
    known_by = _functions.make_function(
        described.lookup_module(), described.qualname, "", 0, compiled.environment, (compiled.library,)
    )
    context.insert_user_function(known_by, described, [compiled.library])
    return compiled._replace(entry_point=known_by)


@contextmanager
def _indices_as_they_are() -> Iterator[None]:
    """Numba compiles under a lock of its own, so nobody else's functions are compiled meanwhile."""
    before = getattr(_arrays, "fix_integer_index", None)
    # Without it this numba has another way to read indices: kernels are slower then, not wrong.
    if before is None:
        yield
        return

    def as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)

    _arrays.fix_integer_index = as_it_is
    try:
        yield
    finally:
        _arrays.fix_integer_index = before
