"""Kernels whose indices are never negative: `bare` here is `cache.bare` without a look at every index's sign (see
`compiling`). Uncompiled, and with NUMBA_BOUNDSCHECK=1, these kernels are like any other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from dynq_cli.engine.kernels.cache import made

Loop = TypeVar("Loop", bound=Callable[..., Any])


@overload
def bare(function: Loop, /) -> Loop: ...
@overload
def bare(**options: Any) -> Callable[[Loop], Loop]: ...
def bare(function: Loop | None = None, /, **options: Any) -> Loop | Callable[[Loop], Loop]:
    """A kernel that allocates nothing and whose indices are never negative."""
    if function is None:
        return functools.partial(made, options={"_nrt": False, **options}, direct=True)
    return made(function, {"_nrt": False}, direct=True)
