"""Calling compiled kernels without numba, whose import takes longer than opening a small state.

    load(path, words, …)(slots, …) = what the kernel returns for arguments of the kinds that `words` say
    quick(native, given)(given) = the same, or OTHER if arguments of the same types are of another kind

A file holds the machine code of one kernel for one list of kinds of arguments. It is put into the process as it is
(`linking`), by LLVM where that is not plain enough.
Its entry takes a block of int64 slots: an integer, a truth value, or the address of an array, whose data, shape and
strides it reads where numpy's C interface has them; what the kernel returns is written behind them, and behind that
stands for each array the address of the dtype it has to have. `arguments` says the kinds of a call, and a kernel runs
only if they are exactly those it was compiled for: an entry looks at the dtype, the dimensions and the flags of every
array itself. So a call that looks like the one before need not ask Python for the kind of each array, which takes
longer than the whole kernel for a small commit. A file that is not whole, or cannot be linked, is as good as none.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynq_cli.engine.kernels.linking import Placed, place

ENTRY = "dynq_entry"
# Where PyArrayObject_fields has the address of the data, the number of dimensions, the addresses of the shape, the
# strides and the dtype, and the flags.
DATA_AT = object.__basicsize__
DIMENSIONS_AT, SHAPE_AT, STRIDES_AT, DTYPE_AT, FLAGS_AT = (DATA_AT + at for at in (8, 16, 24, 40, 48))

_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400
_LAYOUT = _C | _F | _ALIGNED | _WRITEABLE
# Arrays of one row are contiguous both ways, and count as C.
_LAYOUTS = {flags: flags & ~_F if flags & _C else flags for flags in range(_LAYOUT + 1)}
# What an entry gives back for arrays of another kind, and `quick` for a call that it is not made for.
OTHER_KIND = 0x7FFF
OTHER: Any = object()
_LEAST, _MOST = -(2**63), 2**63 - 1
# What numba's calling convention gives back: done, and done with None returned.
_DONE = (0, -2)
_ARRAYS = {np.ndarray}


class Arguments(NamedTuple):
    """The arguments of a call: a hashable kind each, what goes into the slots, and the addresses of dtypes."""

    kinds: tuple[Any, ...]
    slots: list[int]
    dtypes: list[int]

    def words(self) -> list[str]:
        """The kinds in words, as files have them."""
        return [_array_word(*kind) if isinstance(kind, tuple) else kind.__name__ for kind in self.kinds]


def arguments(given: Iterable[Any]) -> Arguments | None:
    """The arguments of a call; None if one of them is of a kind that no entry takes."""
    kinds: list[Any] = []
    slots: list[int] = []
    dtypes: list[int] = []
    for each in given:
        kind = type(each)
        if kind is np.ndarray:
            kinds.append((each.dtype, each.ndim, _LAYOUTS[each.flags.num & _LAYOUT]))
            slots.append(id(each))
            dtypes.append(id(each.dtype))
        elif kind is int or kind is np.int64:
            if not _LEAST <= each <= _MOST:
                return None
            kinds.append(int)
            slots.append(int(each))
        elif kind is bool or kind is np.bool_:
            kinds.append(bool)
            slots.append(int(each))
        elif hasattr(kind, "_fields"):
            inside = arguments(each)
            if inside is None:
                return None
            kinds += [kind, *inside.kinds]
            slots += inside.slots
            dtypes += inside.dtypes
        else:
            return None
    return Arguments(tuple(kinds), slots, dtypes)


def _array_word(dtype: np.dtype[Any], dimensions: int, flags: int) -> str:
    layout = "C" if flags & _C else "F" if flags & _F else "A"
    return array_word(dtype.str, dimensions, layout, not flags & _WRITEABLE, bool(flags & _ALIGNED))


def array_word(dtype: str, dimensions: int, layout: str, readonly: bool, aligned: bool) -> str:
    """What arrays of one compiled type have in common; the layout is C, F or A (any)."""
    return f"{dtype}[{dimensions}]{layout}{'r' if readonly else ''}{'' if aligned else 'u'}"


def flags_of(layout: str, readonly: bool, aligned: bool) -> tuple[int, int]:
    """The flags that tell arrays of a layout from others, and what they are."""
    kind = {"C": _C, "F": _F, "A": 0}[layout]
    looked_at = _LAYOUT & ~_F if layout == "C" else _LAYOUT
    return looked_at, kind | (_ALIGNED if aligned else 0) | (0 if readonly else _WRITEABLE)


def file_name(kernel: str, words: list[str]) -> str:
    """The file of a kernel for a list of kinds."""
    return f"{kernel}-{hashlib.sha256(repr(words).encode()).hexdigest()[:16]}.native"


class Returned(NamedTuple):
    """What a kernel returns: `int`, `uint` or `bool` for each value, none for None."""

    kinds: list[str]
    is_tuple: bool


def packed(code: bytes, words: list[str], returned: Returned) -> bytes:
    """The content of a file."""
    content = json.dumps([words, *returned]).encode() + b"\n" + code
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def load(path: Path, words: list[str], slots: int) -> Native | None:
    """The entry in a file, linked into the process; None if there is none to be trusted. Below a millisecond."""
    try:
        return loaded(path.read_bytes(), words, slots)
    except OSError:
        return None


def loaded(file: bytes, words: list[str], slots: int) -> Native | None:
    """The entry in what a file holds."""
    if not _finds_arrays() or b"\n" not in file:
        return None
    digest, content = file.split(b"\n", 1)
    if hashlib.sha256(content).hexdigest().encode() != digest:
        return None
    header, code = content.split(b"\n", 1)
    made_for, kinds, is_tuple = json.loads(header)
    if made_for != words:
        return None
    try:
        placed = place(code, ENTRY) or _Linker.of_process().link(code)
    except (ImportError, RuntimeError):
        return None
    return Native(placed, slots, Returned(kinds, is_tuple))


class Native:
    """An entry of the process, and how to call it."""

    def __init__(self, placed: Placed, slots: int, returned: Returned) -> None:
        self._placed = placed
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(placed.entry)
        self.slots = slots
        self._returned = returned
        self.stop = slots + len(returned.kinds)
        self._are_int = set(returned.kinds) <= {"int"}

    def __call__(self, slots: Sequence[int], dtypes: Sequence[int] = ()) -> Any:
        """Call the kernel. The arrays whose addresses are in the slots have to outlive the call."""
        returned = [0] * (self.stop - self.slots)
        block = (ctypes.c_int64 * (self.stop + len(dtypes)))(*slots, *returned, *dtypes)
        status = self.entry(block)
        if status not in _DONE:
            raise RuntimeError(f"a compiled kernel gave back status {status}")
        return self.value(block[self.slots : self.stop])

    def value(self, values: list[int]) -> Any:
        """What the kernel returned, from the slots behind its arguments."""
        kinds, is_tuple = self._returned
        if not self._are_int:
            values = [_value(kind, slot) for kind, slot in zip(kinds, values, strict=True)]
        if is_tuple:
            return tuple(values)
        return values[0] if values else None


class Quick:
    """Calls of an entry with arguments of the types that one call had, in the same places.

    Types say what goes into a slot; of what kind arrays are, the entry finds out.
    """

    def __init__(self, native: Native, given: tuple[Any, ...]) -> None:
        self._native = native
        self._entry = native.entry
        self._inside = [i for i, each in enumerate(given) if isinstance(each, tuple)]
        flat = self._flat(given)
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
        flat = given
        if self._inside:
            for i in self._inside:
                if not _ARRAYS.issuperset(map(type, given[i])):
                    return OTHER
            flat = self._flat(given)
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

    def _flat(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments, those in named tuples by themselves."""
        flat = list(given)
        for i in reversed(self._inside):
            flat[i : i + 1] = given[i]
        return tuple(flat)


def quick(native: Native, given: tuple[Any, ...]) -> Quick | None:
    """How to call an entry that takes these arguments; None where named tuples have other members than arrays."""
    inside = (type(member) for each in given if isinstance(each, tuple) for member in each)
    return Quick(native, given) if _ARRAYS.issuperset(inside) else None


def _value(kind: str, slot: int) -> int | bool:
    if kind == "bool":
        return bool(slot)
    return slot % 2**64 if kind == "uint" else slot


class _Linker:
    """LLVM's linker for code in memory."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._llvm = llvm
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

    def link(self, code: bytes) -> Placed:
        """The code where it can be called. RuntimeError if a symbol is missing."""
        self._linked += 1
        builder = self._llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        made = builder.export_symbol(ENTRY).link(self._jit, f"kernel {self._linked}")
        return Placed(made, made[ENTRY])


@functools.cache
def _finds_arrays() -> bool:
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
