"""Object code linked into the process without LLVM: what its linker would do for objects as plain as kernels are.

    place(code, entry) = the code where it can be called, and the address of its entry; None for all but plain objects

LLVM takes 60 MB of a process and a twentieth of a second, and hardly any of it is needed: an object of a kernel has its
code, constants beside it, and calls to few functions that every process has. So the sections are put into one mapping,
references between them, which are distances, are filled in, and a function outside is reached by a jump to its
address, wherever that is. Code can be executed and not written, data the other way round. Plain are objects of ELF for
x86-64 whose references are of these two kinds; all others are left to LLVM.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

_HEADER = struct.Struct("<4sBB10xHH20xQ10xHHH")
_ELF, _64_BIT, _LITTLE_ENDIAN, _RELOCATABLE, _X86_64 = b"\x7fELF", 2, 1, 1, 62
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REFERENCE = struct.Struct("<QQq")
_SYMBOLS, _REFERENCES, _ZEROS, _REFERENCES_IN_PLACE = 2, 4, 8, 9
_WRITTEN, _LOADED = 1, 2
_UNDEFINED, _RESERVED = 0, 0xFF00
# R_X86_64_PC32 and R_X86_64_PLT32: the distance to a place, or to something that leads there.
_DISTANCES = (2, 4)
# jmp *(%rip), with the address behind it.
_JUMP = b"\xff\x25\0\0\0\0"
_JUMP_BYTES = 16


class NotPlainError(Exception):
    """Object code that is left to LLVM."""


class Placed(NamedTuple):
    """The code can be called as long as `held` is there."""

    held: Any
    entry: int


class _Section(NamedTuple):
    kind: int
    flags: int
    start: int
    size: int
    link: int
    info: int
    align: int


class _Symbol(NamedTuple):
    name: bytes
    section: int
    value: int


def place(code: bytes, entry: str) -> Placed | None:
    """Object code in the memory of this process; None if it is not plain, or may not be executed there."""
    try:
        image = _Image(code)
        start = image.address_of(entry)
        return Placed(*_executable(image, start))
    except (NotPlainError, OSError, LookupError, ValueError, struct.error):
        return None


class _Image:
    """An object's sections as they will stand in memory: `bytes` from 0, what is written to from `written` on."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._sections = _sections(code)
        self._symbols = self._read_symbols()
        self.jumps: dict[bytes, int] = {}
        self._places: dict[int, int] = {}
        end = self._put(0, written=False)
        for symbol in self._symbols:
            if symbol.section == _UNDEFINED and symbol.name:
                end = self.jumps[symbol.name] = -(-end // _JUMP_BYTES) * _JUMP_BYTES
                end += _JUMP_BYTES
        self.written = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        self.bytes = bytearray(max(self._put(self.written, written=True), 1))
        for number, at in self._places.items():
            section = self._sections[number]
            if section.kind != _ZEROS:
                self.bytes[at : at + section.size] = code[section.start : section.start + section.size]
        self._refer()

    def address_of(self, name: str) -> int:
        """Where a symbol of the object stands."""
        for symbol in self._symbols:
            if symbol.name == name.encode() and symbol.section in self._places:
                return self._places[symbol.section] + symbol.value
        raise NotPlainError(f"it has no {name}")

    def _put(self, end: int, *, written: bool) -> int:
        """Give the sections that are written to, or all others, their places from `end` on; where they end."""
        for number, section in enumerate(self._sections):
            if section.flags & _LOADED and bool(section.flags & _WRITTEN) is written:
                end = -(-end // max(section.align, 1)) * max(section.align, 1)
                self._places[number] = end
                end += section.size
        return end

    def _read_symbols(self) -> list[_Symbol]:
        tables = [section for section in self._sections if section.kind == _SYMBOLS]
        if len(tables) != 1:
            raise NotPlainError("it has no table of symbols")
        (table,) = tables
        texts = self._sections[table.link]
        names = self._code[texts.start : texts.start + texts.size]
        read = []
        for fields in _SYMBOL.iter_unpack(self._code[table.start : table.start + table.size]):
            name, _, _, section, value, _ = fields
            read.append(_Symbol(names[name : names.index(b"\0", name)], section, value))
        return read

    def _refer(self) -> None:
        """Fill in how far each reference has to reach."""
        for section in self._sections:
            if section.kind == _REFERENCES_IN_PLACE:
                raise NotPlainError("it keeps what is added to references in their place")
            if section.kind != _REFERENCES or section.info not in self._places:
                continue
            for offset, what, added in _REFERENCE.iter_unpack(self._code[section.start : section.start + section.size]):
                if what & 0xFFFFFFFF not in _DISTANCES:
                    raise NotPlainError(f"it has a reference of kind {what & 0xFFFFFFFF}")
                at = self._places[section.info] + offset
                distance = self._target(self._symbols[what >> 32]) + added - at
                struct.pack_into("<i", self.bytes, at, distance)

    def _target(self, symbol: _Symbol) -> int:
        if symbol.section == _UNDEFINED:
            return self.jumps[symbol.name]
        if symbol.section >= _RESERVED or symbol.section not in self._places:
            raise NotPlainError("it refers to what is in none of its sections")
        return self._places[symbol.section] + symbol.value


def _sections(code: bytes) -> list[_Section]:
    if len(code) < _HEADER.size:
        raise NotPlainError("it is no object")
    magic, bits, order, kind, machine, start, size, many, _ = _HEADER.unpack_from(code)
    if (magic, bits, order, kind, machine) != (_ELF, _64_BIT, _LITTLE_ENDIAN, _RELOCATABLE, _X86_64):
        raise NotPlainError("it is none of ELF for x86-64")
    if size != _SECTION.size:
        raise NotPlainError("its sections are described in another way")
    found = []
    for i in range(many):
        _, kind, flags, _, at, length, link, info, align, _ = _SECTION.unpack_from(code, start + i * size)
        found.append(_Section(kind, flags, at, length, link, info, align))
    return found


def _executable(image: _Image, entry: int) -> tuple[Any, int]:
    """A mapping with the image, and the address of its entry."""
    mapping = mmap.mmap(-1, len(image.bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # An image keeps its mapping open: nothing else refers to code.
    view = ctypes.c_char.from_buffer(mapping)
    address, process = ctypes.addressof(view), ctypes.CDLL(None, use_errno=True)
    for name, at in image.jumps.items():
        image.bytes[at : at + _JUMP_BYTES] = (_JUMP + struct.pack("<Q", _function(process, name))).ljust(_JUMP_BYTES)
    mapping[: len(image.bytes)] = bytes(image.bytes)
    protect: Callable[..., int] = process.mprotect
    if protect(ctypes.c_void_p(address), ctypes.c_size_t(image.written), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "code may not be executed")
    return (mapping, view), address + entry


def _function(process: ctypes.CDLL, name: bytes) -> int:
    """The address of a function that the process has."""
    try:
        found = process[name.decode()]
    except (AttributeError, UnicodeDecodeError):
        raise NotPlainError(f"the process has no {name!r}") from None
    return ctypes.cast(found, ctypes.c_void_p).value or 0
