"""The list of kernels that are built, each with the kinds of its arguments, as text.

    positions.divide(int, int, int, int)
    table.find(int64[1], int64[2], int, int64[1])
    update.propagate(int64[1], …, fields.Trees(int64[1], int64[1]), int)

One line is one compiled function. `int64[2]` is an array of two dimensions, in C order, aligned and writable;
`readonly`, `unaligned`, `F` and `A` (any order) follow where it is otherwise. Named tuples and structured dtypes go by
their names: modules of this package without its name, others whole. `make kernels` writes the list, from what the
tests call.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynq_cli.engine.kernels.native import BOOL, INT, Array, Kind, Tuple

PACKAGE = __name__.rpartition(".")[0]
FILE = Path(__file__).with_name("signatures.txt")
_HEADER = (
    "# The kernels that are built, with the kinds of their arguments: see signatures.py. `make kernels` writes this.\n"
)
_TOKEN = re.compile(r"\s*([\w.<>|=]+|[\[\](),])")
_MARKS = {"F": ("layout", "F"), "A": ("layout", "A"), "readonly": ("readonly", True), "unaligned": ("aligned", False)}


class Signature(NamedTuple):
    """A kernel, by its module in this package and its name, and the kinds of its arguments."""

    kernel: str
    kinds: tuple[Kind, ...]

    def symbol(self) -> str:
        """The name of its entry; another one if a dtype or a named tuple changes behind its name."""
        spelled = f"{self.kernel}({', '.join(map(_spelled, self.kinds))})"
        return f"dynq_{re.sub(r'[^a-zA-Z0-9]', '_', self.kernel)}_{hashlib.sha256(spelled.encode()).hexdigest()[:16]}"

    def text(self) -> str:
        """Its line. ValueError if a dtype has no name."""
        return f"{self.kernel}({', '.join(map(_text, self.kinds))})"

    @classmethod
    def parse(cls, line: str) -> Signature:
        """What a line says. ValueError if it says nothing, or names what is not there."""
        tokens = _TOKEN.findall(line)
        if "".join(tokens) != re.sub(r"\s", "", line) or len(tokens) < 3:
            raise ValueError(f"{line.strip()!r} is no signature")
        reader = _Reader(tokens)
        kernel = reader.next()
        reader.expect("(")
        kinds = reader.kinds()
        if not reader.is_done():
            raise ValueError(f"{line.strip()!r} goes on after its end")
        return cls(kernel, kinds)

    def function(self) -> Any:
        """The kernel itself. ValueError if there is none of this name."""
        return named(self.kernel)


def read() -> list[str]:
    """The lines of the list; none if there is no list."""
    try:
        lines = FILE.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line for line in lines if line and not line.startswith("#")]


def write(lines: Iterable[str]) -> None:
    """Make the list say this."""
    FILE.write_text(_HEADER + "".join(f"{line}\n" for line in sorted(set(lines))), "utf-8")


def misfit(line: str) -> str | None:
    """Why a line fits no kernel; None if it fits one."""
    try:
        signature = Signature.parse(line)
        kernel = signature.function()
    except ValueError as error:
        return str(error)
    if not hasattr(kernel, "py_func"):
        return f"{signature.kernel} is no kernel"
    takes = len(inspect.signature(kernel.py_func).parameters)
    return None if takes == len(signature.kinds) else f"{signature.kernel} takes {takes} arguments"


def named(name: str) -> Any:
    """What a name in the list stands for. ValueError if there is nothing."""
    parts = name.split(".")
    start = () if parts[0] == PACKAGE.partition(".")[0] else (PACKAGE,)
    for i in range(len(parts) - 1, 0, -1):
        module = ".".join((*start, *parts[:i]))
        try:
            found: Any = importlib.import_module(module)
            for part in parts[i:]:
                found = getattr(found, part)
            return found
        except ModuleNotFoundError as error:
            if not module.startswith(str(error.name)):
                raise
        except AttributeError:
            break
    raise ValueError(f"there is no {name}")


def relative(module: str) -> str:
    """A module as the list names it."""
    return module.removeprefix(f"{PACKAGE}.")


def _spelled(kind: Kind) -> str:
    """All that compiled code depends on."""
    if isinstance(kind, Array):
        return f"{_layout_of(kind.dtype)}{tuple(kind[1:])}"
    if isinstance(kind, Tuple):
        fields: Iterable[str] = kind.of._fields
        inside = (f"{field}: {_spelled(member)}" for field, member in zip(fields, kind.members, strict=True))
        return f"{kind.of.__module__}.{kind.of.__qualname__}({', '.join(inside)})"
    return kind


def _layout_of(dtype: np.dtype[Any]) -> str:
    if dtype.names is None or dtype.fields is None:
        return f"{dtype.subdtype[0].str}{dtype.subdtype[1]}" if dtype.subdtype else dtype.str
    members = (f"{name}: {_layout_of(dtype.fields[name][0])} @{dtype.fields[name][1]}" for name in dtype.names)
    return f"{{{', '.join(members)}; {dtype.itemsize}}}"


def _text(kind: Kind) -> str:
    if isinstance(kind, Array):
        marks = [kind.layout] if kind.layout != "C" else []
        marks += ["readonly"] if kind.readonly else []
        marks += [] if kind.aligned else ["unaligned"]
        return " ".join([f"{_name_of(kind.dtype)}[{kind.dimensions}]", *marks])
    if isinstance(kind, Tuple):
        return f"{relative(kind.of.__module__)}.{kind.of.__qualname__}({', '.join(map(_text, kind.members))})"
    return kind


def _name_of(dtype: np.dtype[Any]) -> str:
    if dtype.names is None:
        return dtype.name if dtype == np.dtype(dtype.name) else dtype.str
    modules = [name for name in sys.modules if name.partition(".")[0] == PACKAGE.partition(".")[0]]
    for module in sorted(modules, key=lambda name: (not name.startswith(PACKAGE), name)):
        for name, value in vars(sys.modules[module]).items():
            if isinstance(value, np.dtype) and value == dtype:
                return f"{relative(module)}.{name}"
    raise ValueError(f"no module has the dtype {dtype} as a constant, so the list of kernels cannot name it")


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def is_done(self) -> bool:
        return self._at == len(self._tokens)

    def next(self) -> str:
        if self.is_done():
            raise ValueError(f"{' '.join(self._tokens)!r} ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def expect(self, token: str) -> None:
        found = self.next()
        if found != token:
            raise ValueError(f"{' '.join(self._tokens)!r} has {found!r} where {token!r} should be")

    def kinds(self) -> tuple[Kind, ...]:
        """Kinds up to a closing bracket, which is taken."""
        found: list[Kind] = []
        while self._peek() != ")":
            if found:
                self.expect(",")
            found.append(self._kind())
        self.expect(")")
        return tuple(found)

    def _peek(self) -> str:
        return "" if self.is_done() else self._tokens[self._at]

    def _kind(self) -> Kind:
        name = self.next()
        if self._peek() == "(":
            self.next()
            kind, members = named(name), self.kinds()
            if len(getattr(kind, "_fields", ())) != len(members):
                raise ValueError(f"{name} is no named tuple with {len(members)} members")
            return Tuple(kind, members)
        if self._peek() != "[":
            if name not in (INT, BOOL):
                raise ValueError(f"{name!r} is no kind of argument")
            return name
        self.next()
        dimensions = int(self.next())
        self.expect("]")
        marks: dict[str, Any] = {}
        while self._peek() in _MARKS:
            mark, value = _MARKS[self.next()]
            marks[mark] = value
        return Array(named(name) if "." in name else np.dtype(name), dimensions, **marks)
