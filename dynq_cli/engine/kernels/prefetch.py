"""Prefetch memory before it is needed.

Tables are larger than caches, and a probe of a hash is one cache miss after another. A kernel that knows the next few
dozen places it will read prefetches all of them first, so that the misses overlap.
"""

from typing import Any

from numpy.typing import NDArray

from dynq_cli.engine.kernels.cache import before_compiling, kernel

# How many places are asked for at a time.
AHEAD = 32
_prefetch: Any


@before_compiling
def _make_prefetch() -> None:
    global _prefetch
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    helpers: Any = cgutils

    def ask(typing: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            struct = context.make_array(kind)(context, builder, arguments[0])
            place = helpers.get_item_pointer(context, builder, kind, struct, [arguments[1]], wraparound=False)
            bytes_ = builder.bitcast(place, ir.IntType(8).as_pointer())
            number = ir.IntType(32)
            function = helpers.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [bytes_.type, number, number, number]),
                "llvm.prefetch.p0" if "opaque" in str(bytes_.type) else "llvm.prefetch.p0i8",
            )
            builder.call(function, [bytes_, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    _prefetch = intrinsic(ask)


@kernel(inline="always")
def prefetch(array: NDArray[Any], place: int) -> None:
    """Bring the cache line of a place near; changes nothing."""
    _prefetch(array, place)


@kernel(inline="always")
def prefetch_all(words: NDArray[Any], place: int, many: int) -> None:
    """The same of all cache lines that so many words from a place on are in."""
    for at in range(place, place + many - 1, 8):
        prefetch(words, at)
    prefetch(words, place + many - 1)
