"""Calling compiled kernels without numba, whose import takes longer than opening a small state.

    Native(entry, …)(slots, …) = what the kernel returns for arguments of the kinds that it is compiled for
    Quick(native, given)(given) = the same, or OTHER if arguments of the same types are of another kind

An entry is a function of the built library (`library`), or one that was compiled in this process (`jit`). It takes a
block of int64 slots: an integer, a truth value, or the address of an array, whose data, shape and strides it reads
where numpy's C interface has them. What the kernel returns is written behind them, and behind that stands for each
array the address of the dtype it has to have. `arguments` computes the kinds of a call, and a kernel runs only if they
are exactly those it was compiled for: an entry compares the dtype, the dimensions and the flags of every array itself.
So a call that looks like the one before need not ask Python for the kind of each array, which takes longer than the
whole kernel for a small commit.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

# Where PyArrayObject_fields has the address of the data, the number of dimensions, the addresses of the shape, the
# strides and the dtype, and the flags.
DATA_AT = object.__basicsize__
DIMENSIONS_AT, SHAPE_AT, STRIDES_AT, DTYPE_AT, FLAGS_AT = (DATA_AT + at for at in (8, 16, 24, 40, 48))

_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400
_LAYOUT = _C | _F | _ALIGNED | _WRITEABLE
# What an entry gives back for arrays of another kind, and `Quick` for a call that it is not made for.
OTHER_KIND = 0x7FFF
OTHER: Any = object()
_LEAST, _MOST = -(2**63), 2**63 - 1
# What numba's calling convention gives back: done, and done with None returned.
_DONE = (0, -2)


class Array(NamedTuple):
    """What arrays of one compiled type have in common; the layout is C, F or A (any)."""

    dtype: np.dtype[Any]
    dimensions: int
    layout: str = "C"
    readonly: bool = False
    aligned: bool = True


class Tuple(NamedTuple):
    """A named tuple, which is passed by its members."""

    of: type[Any]
    members: tuple[Any, ...]


# An array, a named tuple, or the word for a number.
Kind = Array | Tuple | str
INT, BOOL = "int", "bool"


class Arguments(NamedTuple):
    """The arguments of a call: a kind each, what goes into the slots, and the addresses of dtypes."""

    kinds: tuple[Kind, ...]
    slots: list[int]
    dtypes: list[int]


def arguments(given: Iterable[Any]) -> Arguments | None:
    """The arguments of a call; None if one of them is of a kind that no entry takes."""
    kinds: list[Kind] = []
    slots: list[int] = []
    dtypes: list[int] = []
    for each in given:
        kind = type(each)
        if kind is np.ndarray:
            kinds.append(Array(each.dtype, each.ndim, *_LAYOUTS[each.flags.num & _LAYOUT]))
            slots.append(id(each))
            dtypes.append(id(each.dtype))
        elif kind is int or kind is np.int64:
            if not _LEAST <= each <= _MOST:
                return None
            kinds.append(INT)
            slots.append(int(each))
        elif kind is bool or kind is np.bool_:
            kinds.append(BOOL)
            slots.append(int(each))
        elif hasattr(kind, "_fields"):
            inside = arguments(each)
            if inside is None:
                return None
            kinds.append(Tuple(kind, inside.kinds))
            slots += inside.slots
            dtypes += inside.dtypes
        else:
            return None
    return Arguments(tuple(kinds), slots, dtypes)


def _layout(flags: int) -> tuple[str, bool, bool]:
    # Arrays of one row are contiguous both ways, and count as C.
    return "C" if flags & _C else "F" if flags & _F else "A", not flags & _WRITEABLE, bool(flags & _ALIGNED)


_LAYOUTS = {flags: _layout(flags) for flags in range(_LAYOUT + 1)}


def flags_of(layout: str, readonly: bool, aligned: bool) -> tuple[int, int]:
    """The flags that tell arrays of a layout from others, and what they are."""
    kind = {"C": _C, "F": _F, "A": 0}[layout]
    looked_at = _LAYOUT & ~_F if layout == "C" else _LAYOUT
    return looked_at, kind | (_ALIGNED if aligned else 0) | (0 if readonly else _WRITEABLE)


class Returned(NamedTuple):
    """What a kernel returns: `int`, `uint`, `bool` or `float` for each value, none for None.

    `made` is empty for a single value, `tuple`, or the named tuple as `module:name`.
    """

    kinds: tuple[str, ...]
    made: str = ""

    def text(self) -> str:
        return f"{self.made}({','.join(self.kinds)})"

    @classmethod
    def parse(cls, text: str) -> Returned:
        made, _, kinds = text.removesuffix(")").partition("(")
        return cls(tuple(kinds.split(",")) if kinds else (), made)

    def make(self) -> Any:
        """What the values are given to; None for a single value."""
        if self.made in ("", "tuple"):
            return tuple if self.made else None
        module, _, name = self.made.partition(":")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found._make


class Native:
    """An entry of the process, and how to call it; `held` keeps its code where it is."""

    def __init__(self, address: int, slots: int, returned: Returned, held: Any = None) -> None:
        self._held = held
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self.slots = slots
        self._kinds = returned.kinds
        self._make = returned.make()
        self.stop = slots + len(returned.kinds)
        self._are_int = set(returned.kinds) <= {INT}

    def __call__(self, slots: Sequence[int], dtypes: Sequence[int] = ()) -> Any:
        """Call the kernel. The arrays whose addresses are in the slots have to outlive the call."""
        returned = [0] * (self.stop - self.slots)
        block = (ctypes.c_int64 * (self.stop + len(dtypes)))(*slots, *returned, *dtypes)
        status = self.entry(block)
        if status not in _DONE:
            raise RuntimeError(f"a compiled kernel gave back status {status}")
        return self.value(block[self.slots : self.stop])

    def value(self, values: list[Any]) -> Any:
        """What the kernel returned, from the slots behind its arguments."""
        if not self._are_int:
            values = [_value(kind, slot) for kind, slot in zip(self._kinds, values, strict=True)]
        if self._make is not None:
            return self._make(values)
        return values[0] if values else None


class Quick:
    """Calls of an entry with arguments of the types that one call had, in the same places.

    Types say what goes into a slot; of what kind arrays are, the entry finds out.
    """

    def __init__(self, native: Native, given: tuple[Any, ...]) -> None:
        self._native = native
        self._entry = native.entry
        # Named tuples, and the named tuples in each: the last ones first, so that places before them stay.
        self._inside = [
            (i, [k for k, member in reversed(list(enumerate(each))) if isinstance(member, tuple)])
            for i, each in reversed(list(enumerate(given)))
            if isinstance(each, tuple)
        ]
        flat = self._flat(given)
        self._types = list(map(type, flat))
        self._numbers = [i for i, each in enumerate(flat) if type(each) in (int, bool, np.int64)]
        self._truths = [i for i, each in enumerate(flat) if type(each) is np.bool_]
        # Those of the arrays of this call: as long as they are kept, no other dtype has their address.
        self._dtypes = [each.dtype for each in flat if type(each) is np.ndarray]
        self._behind = (*[0] * (native.stop - native.slots), *map(id, self._dtypes))
        size = len(flat) + len(self._behind)
        self._block = ctypes.c_int64 * size
        self._pack_into = struct.Struct(f"={size}q").pack_into

    def __call__(self, given: tuple[Any, ...]) -> Any:
        """What the kernel returns; OTHER if it is not made for arguments of these kinds, and has not run."""
        flat: Sequence[Any] = given
        if self._inside:
            flat = self._flat(given)
            if list(map(type, flat)) != self._types:
                return OTHER
        slots: list[Any] = list(map(id, flat))
        for i in self._numbers:
            slots[i] = flat[i]
        for i in self._truths:
            slots[i] = int(flat[i])
        block = self._block()
        try:
            self._pack_into(block, 0, *slots, *self._behind)
        except struct.error:
            return OTHER
        status = self._entry(block)
        if status == OTHER_KIND:
            return OTHER
        if status not in _DONE:
            raise RuntimeError(f"a compiled kernel gave back status {status}")
        return self._native.value(block[self._native.slots : self._native.stop])

    def _flat(self, given: tuple[Any, ...]) -> list[Any]:
        """Arguments, those in named tuples by themselves."""
        flat = list(given)
        for i, nested in self._inside:
            if nested:
                members = list(given[i])
                for k in nested:
                    members[k : k + 1] = members[k]
                flat[i : i + 1] = members
            else:
                flat[i : i + 1] = given[i]
        return flat


def _value(kind: str, slot: int) -> int | bool | float:
    if kind == BOOL:
        return bool(slot)
    if kind == "float":
        found: float = struct.unpack("=d", struct.pack("=q", slot))[0]
        return found
    return slot % 2**64 if kind == "uint" else slot


@functools.cache
def finds_arrays() -> bool:
    """Whether arrays are laid out as entries read them, tried on one."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    tried = np.zeros((2, 6), np.int16)[:, ::3]
    place = id(tried)
    shape, strides = (
        (ctypes.c_int64 * 2).from_address(ctypes.c_int64.from_address(place + at).value)
        for at in (SHAPE_AT, STRIDES_AT)
    )
    data, dtype = (ctypes.c_int64.from_address(place + at).value for at in (DATA_AT, DTYPE_AT))
    dimensions, flags = (ctypes.c_int32.from_address(place + at).value for at in (DIMENSIONS_AT, FLAGS_AT))
    found = (data, tuple(shape), tuple(strides), dtype, dimensions, flags & _LAYOUT)
    kind = (id(tried.dtype), tried.ndim, tried.flags.num & _LAYOUT)
    return found == (tried.__array_interface__["data"][0], tried.shape, tried.strides, *kind)
