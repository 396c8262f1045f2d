"""Kernels whose indices are never negative.

Numba lets a negative index count from the end, as Python does, and for that compares every index with 0 and
adds the length of the array before it is used. The places that kernels look at are computed from what they have
just read, so this stands in the way of every access: without it an update takes about 0.8 of its time.

`bare` here is `cache.bare` without it. Uncompiled, and with NUMBA_BOUNDSCHECK=1, these kernels are like any other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from dynq_cli.engine.kernels.cache import before_compiling, kernel

Loop = TypeVar("Loop", bound=Callable[..., Any])


@overload
def bare(function: Loop, /) -> Loop: ...
@overload
def bare(**options: Any) -> Callable[[Loop], Loop]: ...
def bare(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """A kernel that allocates nothing and whose indices are never negative."""
    if function is None:
        return functools.partial(_direct, options=options)
    return _direct(function, options)


def _direct(function: Loop, options: dict[str, Any]) -> Loop:
    made: Any = kernel(_nrt=False, **options)(function)
    before_compiling(lambda: made.targetoptions.update(pipeline_class=_compiler()))
    return made  # type: ignore[no-any-return]


@functools.cache
def _compiler() -> Any:
    """Numba's compiler with indices as they are."""
    from numba.core.compiler import Compiler

    base: Any = Compiler

    class DirectCompiler(base):  # type: ignore[misc]
        def compile_extra(self, function: Any) -> Any:
            with _indices_as_they_are():
                return super().compile_extra(function)

    return DirectCompiler


@contextmanager
def _indices_as_they_are() -> Iterator[None]:
    """Numba compiles under a lock of its own, so nobody else's functions are compiled meanwhile."""
    from numba.core import types
    from numba.np import arrayobj

    arrays: Any = arrayobj
    before = getattr(arrays, "fix_integer_index", None)
    # Without it this numba has another way to read indices: kernels are slower then, not wrong.
    if before is None:
        yield
        return

    def as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)

    arrays.fix_integer_index = as_it_is
    try:
        yield
    finally:
        arrays.fix_integer_index = before
