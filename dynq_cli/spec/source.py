"""The characters of a spec file: bounded, UTF-8, visible, each with its line and column.

Line ends are read as `\\n` whatever the file uses; that moves no character to another line or
column. Everything above this module can rely on `\\n` being the only line break.
"""

from __future__ import annotations

import codecs
import os
import re
from bisect import bisect_right
from dataclasses import dataclass, field

from dynq_cli.errors import Place, Problem, SpecError, UsageError

MAX_BYTES = 1 << 20
_INVISIBLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Source:
    """The text of a file; `place` is O(log lines)."""

    file: str
    text: str
    _line_starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = (0, *(found.end() for found in re.finditer("\n", self.text)))
        object.__setattr__(self, "_line_starts", starts)

    def position(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, of the character at `index`."""
        line = bisect_right(self._line_starts, index)
        return line, index - self._line_starts[line - 1] + 1

    def place(self, index: int) -> Place:
        return Place(self.file, *self.position(index))

    def line_before(self, index: int) -> str:
        """The text between the start of the line and `index`."""
        return self.text[self.text.rfind("\n", 0, index) + 1 : index]

    def line_at(self, index: int) -> str:
        end = self.text.find("\n", index)
        return self.line_before(index) + self.text[index : len(self.text) if end < 0 else end]


def read_source(path: str | os.PathLike[str]) -> Source:
    """Read a file of at most MAX_BYTES; no more than that is ever held."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no spec file {name}") from None
    except IsADirectoryError:
        raise UsageError(f"{name} is a directory, not a spec file: name the YAML file in it") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read the spec file {name}: {reason}") from None
    _refuse_long(len(data), name)
    return source_of(_decode(data, name), name)


def source_of(text: str, file: str) -> Source:
    """Check a text that is already in memory; raises SpecError."""
    _refuse_long(len(text.encode("utf-8", "surrogatepass")), file)
    source = Source(file, _unify(text))
    problems = [
        Problem(
            source.place(found.start()),
            f"the character U+{ord(found[0]):04X} cannot be seen and is not allowed in a spec",
            "delete it; inside a double-quoted text it can be written as an escape, "
            f'as in "\\{_escape(ord(found[0]))}"',
        )
        for found in _INVISIBLE.finditer(source.text)
    ]
    if problems:
        raise SpecError(problems[:20])
    return source


def _unify(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _escape(code: int) -> str:
    return f"x{code:02X}" if code < 0x100 else f"u{code:04X}"


def _refuse_long(length: int, file: str) -> None:
    if length > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES:,} bytes, the most a spec may have"
        hint = "a spec holds relations, queries and outputs; check that this is not a data file"
        raise SpecError([Problem(Place(file, 1, 1), message, hint)])


def _decode(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = Source(file, _unify(data[: error.start].decode("utf-8")))
        place = before.place(len(before.text))
        message = f"byte 0x{data[error.start]:02X} is not UTF-8"
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        hint = "the file looks like UTF-16; save it as UTF-8" if wide else "save the file as UTF-8"
        raise SpecError([Problem(place, message, hint)]) from None
