"""Calls that change files, counted; one of them is the last of its process, or fails.

    install()                     once per process, before dynq is imported: every call goes through here
    begin(root, fault, trace)     from now on calls below `root` count, and the one that `fault` names is struck

A *call* is an open, or a write, truncation, sync, rename, removal and the like of a file below `root`. Calls are seen
where Python makes them. What Arrow opens by itself are change logs, every byte of which Python reads first.
"""

from __future__ import annotations

import builtins
import errno
import io
import mmap
import os
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

# kill: the process ends before the call; tear: after half of a write, or before another call.
# EIO, ENOSPC: the call fails, a write to a full disk after half of it. short: a write does half, and says so.
# full: from the call on, all that needs room fails.
Kind = Literal["kill", "tear", "EIO", "ENOSPC", "short", "full"]

_BY_PATH = ("unlink", "remove", "mkdir", "rmdir", "chmod", "replace", "rename", "truncate", "link", "symlink")
_BY_FILE = ("fsync", "fdatasync", "ftruncate", "fchmod", "posix_fallocate")
_NEEDS_ROOM = ("mkdir", "ftruncate", "posix_fallocate", "fsync", "write", "pwrite", "create", "flush", "mmap")
_WRITING = frozenset("wax+")
_LENGTH = struct.Struct("<Q")
_PATCHED = (*_BY_PATH, *_BY_FILE, "open", "write", "pwrite")
_REAL = {name: getattr(os, name) for name in _PATCHED if hasattr(os, name)}
_real_open = io.open


class Fault(NamedTuple):
    """What happens at a call; calls count from 1."""

    kind: Kind
    at: int


@dataclass
class _Struck:
    """What is counted, and what was seen so far."""

    root: str
    fault: Fault | None
    trace: mmap.mmap
    calls: int = 0
    files: dict[int, str] = field(default_factory=dict)

    def below(self, path: Any, folder: int | None = None) -> str | None:
        """The path from the root on, if it is there."""
        if folder is not None:
            return f"{self.files[folder]}/{os.fsdecode(path)}" if folder in self.files else None
        if isinstance(path, int):
            return self.files.get(path)
        full = os.path.abspath(os.fsdecode(path))
        return os.path.relpath(full, self.root) if f"{full}/".startswith(f"{self.root}/") else None

    def note(self, name: str, where: str) -> bool:
        """Count a call; whether it is the one."""
        self.calls += 1
        (length,) = _LENGTH.unpack_from(self.trace, 0)
        line = f"{name} {where}\n".encode()
        start = _LENGTH.size + length
        if start + len(line) <= len(self.trace):
            self.trace[start : start + len(line)] = line
            _LENGTH.pack_into(self.trace, 0, length + len(line))
        fault = self.fault
        if fault is None:
            return False
        if fault.kind == "full":
            return self.calls >= fault.at and name in _NEEDS_ROOM
        return self.calls == fault.at

    def step(self, name: str, where: str) -> None:
        """A call that is made or not."""
        if not self.note(name, where):
            return
        assert self.fault is not None
        match self.fault.kind:
            case "kill" | "tear":
                _die()
            case "EIO":
                raise OSError(errno.EIO, os.strerror(errno.EIO), where)
            case "ENOSPC" | "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), where)
            case "short":
                return

    def write(self, name: str, where: str, data: Any, real: Callable[[Any], int]) -> int:
        """A call that may be made in half."""
        if not self.note(name, where):
            return real(data)
        assert self.fault is not None
        half = memoryview(data).cast("B")[: memoryview(data).nbytes // 2]
        match self.fault.kind:
            case "kill":
                _die()
            case "tear":
                real(half)
                _die()
            case "EIO":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            case "ENOSPC" | "full":
                real(half)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case "short" if half:
                return real(half)
        return real(data)


_struck: _Struck | None = None


def begin(root: str, fault: Fault | None, trace: mmap.mmap) -> None:
    """Count the calls below a directory from now on; `trace` gets a line for each."""
    global _struck
    _struck = _Struck(os.path.realpath(root), fault, trace)


def calls_in(trace: mmap.mmap) -> list[str]:
    """The calls that a process made, also one that is gone: `name path`."""
    (length,) = _LENGTH.unpack_from(trace, 0)
    return bytes(trace[_LENGTH.size : _LENGTH.size + length]).decode().splitlines()


def install() -> None:
    """Let every call of this process go through here; nothing changes before `begin`."""
    for name in _BY_PATH:
        setattr(os, name, _by_path(name))
    for name in _BY_FILE:
        if name in _REAL:
            setattr(os, name, _by_file(name))
    os.open = _os_open
    os.write = lambda file, data: _written("write", file, data, lambda part: _REAL["write"](file, part))
    os.pwrite = lambda file, data, at: _written("pwrite", file, data, lambda part: _REAL["pwrite"](file, part, at))
    io.FileIO = _FileIO  # type: ignore[misc]
    io.open = builtins.open = _open
    mmap.mmap = _Mmap  # type: ignore[assignment, misc]


def _by_path(name: str) -> Callable[..., Any]:
    def call(path: Any, *args: Any, dir_fd: int | None = None, **options: Any) -> Any:
        if _struck is not None and (where := _struck.below(path, dir_fd)) is not None:
            _struck.step(name, where)
        if dir_fd is not None:
            options["dir_fd"] = dir_fd
        return _REAL[name](path, *args, **options)

    return call


def _by_file(name: str) -> Callable[..., Any]:
    def call(file: int, *args: Any) -> Any:
        if _struck is not None and (where := _struck.below(file)) is not None:
            _struck.step(name, where)
        return _REAL[name](file, *args)

    return call


def _written(name: str, file: int, data: Any, real: Callable[[Any], int]) -> int:
    if _struck is None or (where := _struck.below(file)) is None:
        return real(data)
    return _struck.write(name, where, data, real)


def _os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    where = None if _struck is None else _struck.below(path, dir_fd)
    if _struck is not None and where is not None:
        _struck.step("create" if flags & os.O_CREAT else "open", where)
    handle: int = _REAL["open"](path, flags, mode, dir_fd=dir_fd)
    _remember(handle, where)
    return handle


def _remember(handle: int, where: str | None) -> None:
    if _struck is not None:
        _struck.files.pop(handle, None)
        if where is not None:
            _struck.files[handle] = where


class _FileIO(io.FileIO):
    """A file whose opening and writing count."""

    def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
        where = None if _struck is None or isinstance(file, int) else _struck.below(file)
        if _struck is not None and where is not None:
            _struck.step("create" if _WRITING & set(mode) else "open", where)
        super().__init__(file, mode, closefd, opener)
        if not isinstance(file, int):
            _remember(self.fileno(), where)

    def write(self, data: Any, /) -> int:
        return _written("write", self.fileno(), data, super().write)

    def truncate(self, size: int | None = None, /) -> int:
        if _struck is not None and (where := _struck.below(self.fileno())) is not None:
            _struck.step("ftruncate", where)
        return super().truncate(size)


def _open(file: Any, mode: str = "r", buffering: int = -1, *texts: Any, **options: Any) -> Any:
    if _struck is None or isinstance(file, int) or (where := _struck.below(file)) is None:
        return _real_open(file, mode, buffering, *texts, **options)
    if not _WRITING & set(mode):
        _struck.step("open", where)
        opened = _real_open(file, mode, buffering, *texts, **options)
        _remember(opened.fileno(), where)
        return opened
    raw = _FileIO(file, mode.replace("b", "").replace("t", ""))
    if buffering == 0:
        return raw
    buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, *texts, **options)


class _Mmap(mmap.mmap):
    """A mapping whose making and syncing count; what is written to it is no call."""

    def __new__(cls, file: int, *args: Any, **options: Any) -> _Mmap:
        if _struck is not None and (where := _struck.below(file)) is not None:
            _struck.step("mmap", where)
        return super().__new__(cls, file, *args, **options)

    def flush(self, *args: Any) -> None:
        if _struck is not None:
            _struck.step("flush", "a mapping")
        super().flush(*args)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
